"""`taxi`: fetch a passenger and bring them to a stand, in a town of 5 x 5 crossings with a few walls (Dietterich 2000).

The task fixes where everybody is. Nothing is left to chance. A drive costs 0.01, a stop at the wrong place 0.03, the
right arrival earns 1.
"""

import functools
import random
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.small.script import Rule, latest_first
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

Place = tuple[int, int]
STANDS: dict[str, Place] = {"red": (0, 0), "green": (0, 4), "yellow": (4, 0), "blue": (4, 3)}
SIZE = 5
WALLS = {((0, 1), (0, 2)), ((1, 1), (1, 2)), ((3, 0), (3, 1)), ((4, 0), (4, 1)), ((3, 2), (3, 3)), ((4, 2), (4, 3))}
DRIVES: dict[str, Place] = {
    "drive south": (1, 0),
    "drive north": (-1, 0),
    "drive east": (0, 1),
    "drive west": (0, -1),
}
FETCH, DROP = "let the passenger in", "let the passenger out"
ACTIONS = (*DRIVES, FETCH, DROP)
STEPS = 40


class TaxiConfig(SmallConfig):
    """The taxi."""


def arrival(place: Place, drive: str) -> Place:
    """Where a drive ends; a wall or the edge of town stops it."""
    down, right = DRIVES[drive]
    there = place[0] + down, place[1] + right
    inside = 0 <= there[0] < SIZE and 0 <= there[1] < SIZE
    return there if inside and (min(place, there), max(place, there)) not in WALLS else place


class TaxiGame:
    """One ride."""

    goal = "Fetch the passenger and bring them to their stand. Every drive costs a little, a wrong stop more."

    def __init__(self, cab: Place, waiting: str, destination: str) -> None:
        self._cab, self._waiting, self._destination = cab, waiting, destination

    def introduction(self) -> str:
        return self._view()

    def admissible(self) -> Sequence[str]:
        return ACTIONS

    def act(self, action: str) -> Reaction:
        if action in DRIVES:
            self._cab = arrival(self._cab, action)
            return Reaction(self._view(), -0.01)
        if action == FETCH and self._waiting and self._cab == STANDS[self._waiting]:
            self._waiting = ""
            return Reaction(self._view(), -0.01)
        if action == DROP and not self._waiting and self._cab == STANDS[self._destination]:
            return Reaction("The passenger pays and gets out.", 1.0, over=True, won=True)
        if action in ACTIONS:
            return Reaction(f"Nobody wants to get {'in' if action == FETCH else 'out'} here. {self._view()}", -0.03)
        return Reaction(f"The engine hums. {self._view()}", -0.03, valid=False)

    def _view(self) -> str:
        who = f"The passenger waits at the {self._waiting} stand" if self._waiting else "The passenger is in your cab"
        street, avenue = self._cab
        return f"You are on street {street}, avenue {avenue}. {who} and wants to go to the {self._destination} stand."


@dataclass(frozen=True)
class Ride:
    """What the driver knows."""

    cab: Place
    waiting: str
    """The stand where the passenger waits; empty when they are in the cab."""
    destination: str

    @property
    def heading(self) -> str:
        return self.waiting or self.destination


class TaxiWorld(SmallWorld):
    """The taxi."""

    name = "taxi"
    max_steps = STEPS
    return_range = (-0.03 * STEPS, 1.0)

    def __init__(self, config: TaxiConfig | None = None) -> None:
        self.config: TaxiConfig = config or TaxiConfig()

    def game(self, task: random.Random, draw: random.Random) -> TaxiGame:
        waiting, destination = task.sample(list(STANDS), 2)
        return TaxiGame((task.randrange(SIZE), task.randrange(SIZE)), waiting, destination)

    @property
    def scripts(self) -> Mapping[str, Rule]:
        drives = tuple(DRIVES)
        return {
            "optimal": lambda turn: _drive(ride_of(turn)),
            "forgets walls": _straight,
            "stand after stand": _searching,
            "either stand": lambda turn: _half(_drive(ride_of(turn)), _drive(_misheard(ride_of(turn)))),
            "drops on the way": lambda turn: _drive(ride_of(turn)) if turn.step % 2 or ride_of(turn).waiting else DROP,
            "never fetches": lambda turn: _drive(Ride(ride_of(turn).cab, "", ride_of(turn).destination)),
            "cruises": lambda turn: dict.fromkeys(drives, 0.25),
            "random": lambda turn: dict.fromkeys(ACTIONS, 1 / len(ACTIONS)),
            "dithers": lambda turn: _half(_drive(ride_of(turn)), drives[turn.step % 2]),
            "asks everywhere": lambda turn: FETCH if turn.step % 2 and ride_of(turn).waiting else _drive(ride_of(turn)),
        }


def ride_of(turn: Turn) -> Ride:
    """The ride as the latest observations describe it."""
    for text in latest_first(turn):
        place = re.search(r"street (\d), avenue (\d)", text)
        destination = re.search(r"go to the (\w+) stand", text)
        if place and destination and destination[1] in STANDS:
            waiting = re.search(r"waits at the (\w+) stand", text)
            stand = waiting[1] if waiting and waiting[1] in STANDS else ""
            return Ride((int(place[1]) % SIZE, int(place[2]) % SIZE), stand, destination[1])
    return Ride((0, 0), "red", "blue")


@functools.cache
def _directions(goal: Place) -> dict[Place, str]:
    """The first drive of a shortest way to `goal` from everywhere else."""
    ways: dict[Place, str] = {}
    reached, queue = {goal}, deque([goal])
    while queue:
        place = queue.popleft()
        for street in range(SIZE):
            for avenue in range(SIZE):
                for drive in DRIVES:
                    here = (street, avenue)
                    if here not in reached and arrival(here, drive) == place:
                        reached.add(here)
                        ways[here] = drive
                        queue.append(here)
    return ways


def _drive(ride: Ride) -> str:
    goal = STANDS[ride.heading]
    if ride.cab == goal:
        return FETCH if ride.waiting else DROP
    return _directions(goal)[ride.cab]


def _misheard(ride: Ride) -> Ride:
    """The same ride to the stand that comes after the right one."""
    stands = list(STANDS)
    return Ride(ride.cab, ride.waiting, stands[(stands.index(ride.destination) + 1) % len(stands)])


def _half(first: str, second: str) -> dict[str, float]:
    return {first: 1.0} if first == second else {first: 0.5, second: 0.5}


def _straight(turn: Turn) -> str:
    """As if there were no walls: streets first, then avenues."""
    ride = ride_of(turn)
    (street, avenue), goal = ride.cab, STANDS[ride.heading]
    if ride.cab == goal:
        return FETCH if ride.waiting else DROP
    if avenue != goal[1]:
        return "drive east" if goal[1] > avenue else "drive west"
    return "drive south" if goal[0] > street else "drive north"


def _searching(turn: Turn) -> str:
    """Fetches the passenger, then tries to let them out at one stand after the other."""
    ride = ride_of(turn)
    refused = sum("get out here" in exchange.observation for exchange in turn.history)
    refused += "get out here" in turn.observation
    return _drive(ride) if ride.waiting else _drive(Ride(ride.cab, "", list(STANDS)[refused % len(STANDS)]))
