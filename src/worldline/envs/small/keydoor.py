"""`keydoor`: a note at the entrance names a colour, many steps later a door opens to the key of that colour alone.

The episode draws the colour; the task fixes in which rooms the three keys lie. Only the note tells the colour, and only
one key can be carried. The door's answer ends the episode: 1 for the right key, less 0.01 for every step.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.small.script import Rule
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

COLOURS = ("copper", "silver", "ivory")
ROOMS, STEPS, COST = 7, 24, 0.01
ON, BACK, LOOK, OPEN = "go on", "go back", "look around", "try the door"
SIGHTS = ("a spider", "a broken lamp", "an old map", "some dust")


class KeydoorConfig(SmallConfig):
    """The key and the door."""


class KeydoorGame:
    """One walk. Room 0 is the entrance, the last room has the door."""

    goal = "Leave the cellar: open the door in the last room with the right key. You can carry one key."

    def __init__(self, colour: str, keys: Mapping[int, str], draw: random.Random) -> None:
        self._colour, self._keys, self._draw = colour, dict(keys), draw
        self._room, self._carried = 0, ""

    def introduction(self) -> str:
        return (
            f"You enter the cellar. A note is pinned to the wall: only the {self._colour} key is true. {self._view()}"
        )

    def admissible(self) -> Sequence[str]:
        actions = [LOOK]
        actions += [ON] if self._room < ROOMS - 1 else [OPEN]
        actions += [BACK] if self._room else []
        return [*actions, f"take the {self._keys[self._room]} key"] if self._room in self._keys else actions

    def act(self, action: str) -> Reaction:
        if action not in self.admissible():
            return Reaction("That is not possible here.", -COST, valid=False)
        if action == OPEN:
            return self._opened()
        if action == LOOK:
            return Reaction(f"You see {self._draw.choice(SIGHTS)}. {self._view()}", -COST)
        if action in (ON, BACK):
            self._room += 1 if action == ON else -1
            return Reaction(self._view(), -COST)
        taken = self._keys.pop(self._room)
        if self._carried:
            self._keys[self._room] = self._carried
        self._carried = taken
        return Reaction(f"You take the {taken} key. {self._view()}", -COST)

    def _opened(self) -> Reaction:
        if not self._carried:
            return Reaction(f"The door is locked, and you have no key. {self._view()}", -COST)
        if self._carried == self._colour:
            return Reaction("The key turns. The door swings open: you are out.", 1.0, over=True, won=True)
        return Reaction("The key breaks in the lock. You are trapped.", 0.0, over=True)

    def _view(self) -> str:
        where = f"This is room {self._room} of {ROOMS - 1}."
        return f"{where} On a hook hangs the {self._keys[self._room]} key." if self._room in self._keys else where


@dataclass(frozen=True)
class Walk:
    """What the walker knows."""

    room: int
    note: str
    carried: str
    here: str
    """The key that hangs in this room."""


class KeydoorWorld(SmallWorld):
    """The key and the door."""

    name = "keydoor"
    max_steps = STEPS
    return_range = (-COST * STEPS, 1.0)

    def __init__(self, config: KeydoorConfig | None = None) -> None:
        self.config: KeydoorConfig = config or KeydoorConfig()

    def game(self, task: random.Random, draw: random.Random) -> KeydoorGame:
        rooms = task.sample(range(1, ROOMS - 1), len(COLOURS))
        return KeydoorGame(draw.choice(COLOURS), dict(zip(rooms, COLOURS, strict=True)), draw)

    @property
    def scripts(self) -> Mapping[str, Rule]:
        return {
            "optimal": lambda turn: _fetch(walk_of(turn), walk_of(turn).note),
            "first key": lambda turn: _fetch(walk_of(turn), walk_of(turn).carried or walk_of(turn).here),
            "last key": lambda turn: _fetch(walk_of(turn), "" if _took(turn) else walk_of(turn).here),
            "copper only": lambda turn: _fetch(walk_of(turn), "copper"),
            "misreads": lambda turn: _fetch(walk_of(turn), _next(walk_of(turn).note)),
            "reads half": _half_read,
            "looks first": lambda turn: LOOK if turn.step < 12 else _fetch(walk_of(turn), walk_of(turn).note),
            "no key": lambda turn: _fetch(walk_of(turn), ""),
            "doubts": _doubting,
            "runs": lambda turn: {_fetch(walk_of(turn), walk_of(turn).note): 0.7, _fetch(walk_of(turn), ""): 0.31},
            "random": lambda turn: dict.fromkeys(turn.admissible or (ON,), 1.0),
        }


def walk_of(turn: Turn) -> Walk:
    """The walk so far, from everything that was seen and done."""
    seen = [*(exchange.observation for exchange in turn.history), turn.observation]
    note = next((m[1] for text in seen if (m := re.search(r"only the (\w+) key is true", text))), COLOURS[0])
    taken = [m[1] for text in seen if (m := re.search(r"You take the (\w+) key", text))]
    rooms = [int(m[1]) for text in seen if (m := re.search(r"This is room (\d+)", text))]
    here = re.search(r"On a hook hangs the (\w+) key", turn.observation)
    return Walk(rooms[-1] if rooms else 0, note, taken[-1] if taken else "", here[1] if here else "")


def _fetch(walk: Walk, colour: str) -> str:
    """Take the key of this colour where it hangs, and go to the door with it or without."""
    if colour and walk.here == colour and walk.carried != colour:
        return f"take the {colour} key"
    return OPEN if walk.room >= ROOMS - 1 else ON


def _took(turn: Turn) -> bool:
    return bool(turn.history) and turn.history[-1].action.startswith("take")


def _next(colour: str) -> str:
    return COLOURS[(COLOURS.index(colour) + 1) % len(COLOURS)] if colour in COLOURS else colour


def _half_read(turn: Turn) -> dict[str, float]:
    """Takes any key with probability 1/2, the right one for sure; leaves a key alone once it has the right one."""
    walk = walk_of(turn)
    if not walk.here or walk.carried == walk.note or walk.here == walk.note:
        return {_fetch(walk, walk.note): 1.0}
    return {_fetch(walk, walk.here): 0.5, _fetch(walk, walk.note): 0.5}


def _doubting(turn: Turn) -> dict[str, float]:
    """Takes the right key, but turns back or looks around every other step."""
    walk = walk_of(turn)
    aside = BACK if turn.step % 2 and walk.room else LOOK
    return {_fetch(walk, walk.note): 0.65, aside: 0.35}
