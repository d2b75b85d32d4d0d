"""`burrow`: a mouse looks for cheese in a burrow of 4 x 4 chambers, sees only the passages around it, and smells.

The task fixes the burrow, the start and the cheese. Nothing tells where the mouse is: the smell is strong within two
passages, weak within four. The cheese earns 1, every step costs 0.02.
"""

import functools
import random
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.small.script import Rule
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

Chamber = tuple[int, int]
SIZE, STEPS, COST = 4, 24, 0.02
WAYS: dict[str, Chamber] = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
SNIFF = "sniff"


class BurrowConfig(SmallConfig):
    """The burrow."""


@dataclass(frozen=True)
class Burrow:
    """A tree of passages with two loops, where the mouse starts, and where the cheese is."""

    passages: frozenset[tuple[Chamber, Chamber]]
    start: Chamber
    cheese: Chamber

    def exits(self, chamber: Chamber) -> dict[str, Chamber]:
        neighbours = {way: (chamber[0] + down, chamber[1] + right) for way, (down, right) in WAYS.items()}
        return {way: there for way, there in neighbours.items() if _passage(chamber, there) in self.passages}

    @functools.cached_property
    def distances(self) -> dict[Chamber, int]:
        """Passages from each chamber to the cheese."""
        distances, queue = {self.cheese: 0}, deque([self.cheese])
        while queue:
            chamber = queue.popleft()
            for there in self.exits(chamber).values():
                if there not in distances:
                    distances[there] = distances[chamber] + 1
                    queue.append(there)
        return distances


def _passage(one: Chamber, other: Chamber) -> tuple[Chamber, Chamber]:
    return min(one, other), max(one, other)


def dig(draw: random.Random) -> Burrow:
    """A random burrow whose cheese is at least three passages away."""
    chambers = [(row, column) for row in range(SIZE) for column in range(SIZE)]
    walls = [(a, b) for a in chambers for b in chambers if a < b and abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    draw.shuffle(walls)
    joined = {chamber: {chamber} for chamber in chambers}
    passages: set[tuple[Chamber, Chamber]] = set()
    loops = 2
    for a, b in walls:
        if joined[a] is joined[b]:
            if loops:
                passages.add((a, b))
                loops -= 1
            continue
        passages.add((a, b))
        union = joined[a] | joined[b]
        for chamber in union:
            joined[chamber] = union
    burrow = Burrow(frozenset(passages), chambers[0], draw.choice(chambers))
    far = [chamber for chamber in chambers if burrow.distances[chamber] >= 3]
    return Burrow(burrow.passages, draw.choice(far), burrow.cheese)


class BurrowGame:
    """One search."""

    goal = "You are a mouse. Find the cheese in the burrow with few steps."

    def __init__(self, burrow: Burrow) -> None:
        self._burrow, self._here = burrow, burrow.start

    def introduction(self) -> str:
        return f"You wake up in a burrow. {self._view()}"

    def admissible(self) -> Sequence[str]:
        return [*(f"crawl {way}" for way in self._burrow.exits(self._here)), SNIFF]

    def act(self, action: str) -> Reaction:
        if action == SNIFF:
            near = self._burrow.distances[self._here]
            smell = "strongly of cheese" if near <= 2 else "a little of cheese" if near <= 4 else "of earth"
            return Reaction(f"It smells {smell}. {self._view()}", -COST)
        exits = self._burrow.exits(self._here)
        way = action.removeprefix("crawl ")
        if way not in exits or not action.startswith("crawl "):
            return Reaction(f"You bump your nose. {self._view()}", -COST, valid=False)
        self._here = exits[way]
        if self._here == self._burrow.cheese:
            return Reaction("You found the cheese!", 1.0, over=True, won=True)
        return Reaction(self._view(), -COST)

    def _view(self) -> str:
        ways = list(self._burrow.exits(self._here))
        return f"Passages lead {' and '.join(ways)}." if len(ways) > 1 else f"A dead end: the only way is {ways[0]}."


class BurrowWorld(SmallWorld):
    """The burrow."""

    name = "burrow"
    max_steps = STEPS
    return_range = (-COST * STEPS, 1.0)

    def __init__(self, config: BurrowConfig | None = None) -> None:
        self.config: BurrowConfig = config or BurrowConfig()
        self._dug: dict[str, Burrow] = {}

    def game(self, task: random.Random, draw: random.Random) -> BurrowGame:
        return BurrowGame(dig(task))

    def burrow(self, task: str) -> Burrow:
        """What a task looks like from above."""
        if task not in self._dug:
            self._dug[task] = dig(self.fixed(task))
        return self._dug[task]

    @property
    def scripts(self) -> Mapping[str, Rule]:
        return {
            "optimal": self._shortest,
            "explores": lambda turn: _exploring(turn),
            "right hand": _right_hand,
            "random": lambda turn: dict.fromkeys(turn.admissible or (SNIFF,), 1.0),
            "onwards": _onwards,
            "sniffs": lambda turn: SNIFF if turn.step % 2 == 0 else _exploring(turn),
            "paces": lambda turn: (turn.admissible or (SNIFF,))[0],
            "half optimal": lambda turn: _half(self._shortest(turn), _exploring(turn)),
        }

    def _shortest(self, turn: Turn) -> str:
        """The shortest way of somebody who has a map."""
        burrow = self.burrow(turn.task)
        here = burrow.start
        for exchange in turn.history:
            here = burrow.exits(here).get(exchange.action.removeprefix("crawl "), here)
        exits = burrow.exits(here)
        return f"crawl {min(exits, key=lambda way: burrow.distances[exits[way]])}"


def _ways(turn: Turn) -> list[str]:
    return [action.removeprefix("crawl ") for action in turn.admissible or () if action.startswith("crawl ")] or [
        "north"
    ]


def _exploring(turn: Turn) -> str:
    """Depth first: into a chamber that was not visited; back where there is none."""
    here, visited, path = (0, 0), {(0, 0)}, list[str]()
    for exchange in turn.history:
        way = exchange.action.removeprefix("crawl ")
        if way not in WAYS or (f"crawl {way}" == exchange.action and way not in _listed(exchange.observation)):
            continue
        here = (here[0] + WAYS[way][0], here[1] + WAYS[way][1])
        if path and path[-1] == OPPOSITE[way] and here in visited:
            path.pop()
        else:
            path.append(way)
        visited.add(here)
    ways = _ways(turn)
    for way in WAYS:
        if way in ways and (here[0] + WAYS[way][0], here[1] + WAYS[way][1]) not in visited:
            return f"crawl {way}"
    back = OPPOSITE[path[-1]] if path else ways[0]
    return f"crawl {back if back in ways else ways[0]}"


def _listed(observation: str) -> list[str]:
    return [way for way in WAYS if way in observation]


def _right_hand(turn: Turn) -> str:
    """Keeps to the wall on its right."""
    order, ways = list(WAYS), _ways(turn)
    facing = next((e.action.removeprefix("crawl ") for e in reversed(turn.history) if e.action != SNIFF), "north")
    at = order.index(facing) if facing in order else 0
    return f"crawl {next(way for turned in (1, 0, 3, 2) if (way := order[(at + turned) % 4]) in ways or turned == 2)}"


def _onwards(turn: Turn) -> dict[str, float]:
    """Any way but the one it came from."""
    came = OPPOSITE.get(turn.history[-1].action.removeprefix("crawl "), "") if turn.history else ""
    ways = [way for way in _ways(turn) if way != came] or _ways(turn)
    return {f"crawl {way}": 1 / len(ways) for way in ways}


def _half(first: str, second: str) -> dict[str, float]:
    return {first: 1.0} if first == second else {first: 0.5, second: 0.5}
