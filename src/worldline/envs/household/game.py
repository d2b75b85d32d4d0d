"""A game, prepared for play: what is where at the start, what can be done to what, what wins, and in which words.

Receptacles, objects and locations are numbers: their positions in the order of the official engine's sorted ids. A
set of objects (or of receptacles) is an `int` whose bit i stands for number i, so a state is a handful of small
integers: cheap to copy, to compare and to hash. Games come from `generator.py` (new houses) or `pddl.py` (official).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from worldline.envs.household.grammar import TextGrammar

NOTHING = -1
"""The number of the object in an empty hand."""


def mask(numbers: Iterable[int]) -> int:
    """The set of `numbers` as bits."""
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def members(bits: int) -> Iterator[int]:
    """The numbers in a set, ascending."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


@dataclass(slots=True)
class State:
    """All that changes while a game is played."""

    here: int
    """The agent's location."""
    contents: list[int]
    """Per receptacle: the objects in or on it (an object may be in several: official games nest receptacles)."""
    at: list[int]
    """Per location: the objects there. Not the union of `contents`: official games also have objects on the floor."""
    taken: list[int]
    """Per receptacle: the objects taken from it and not put back. The official engine's "next to it" lists these."""
    opened: int = 0
    held: int = NOTHING
    clean: int = 0
    hot: int = 0
    cool: int = 0
    sliced: int = 0
    lit: int = 0

    def copy(self) -> "State":
        return replace(self, contents=self.contents.copy(), at=self.at.copy(), taken=self.taken.copy())

    def key(self) -> tuple[object, ...]:
        """A hashable value, equal for equal states."""
        where = (self.here, self.held, self.opened, *self.contents, *self.at, *self.taken)
        return (where, self.clean, self.hot, self.cool, self.sliced, self.lit)


@dataclass(frozen=True, slots=True)
class GoalCondition:
    """Some of `objects`, in the requested condition, in one of `receptacles`; or one in the hand beside a lit lamp."""

    objects: int
    receptacles: int = 0
    count: int = 1
    condition: tuple[str, ...] = ()
    """Fields of `State` that must hold of the object: clean, hot, cool, sliced."""
    lamps: int = 0

    def met(self, state: State, beside: Iterable[int]) -> bool:
        """Whether `state` wins; `beside` are the receptacles at the agent's location."""
        if self.lamps:
            holding = state.held >= 0 and self.objects >> state.held & 1
            return bool(holding) and any(state.contents[r] & self.lamps & state.lit for r in beside)
        treated = self.objects
        for name in self.condition:
            treated &= getattr(state, name)
        return any((state.contents[r] & treated).bit_count() >= self.count for r in members(self.receptacles))


@dataclass(frozen=True)
class Game:
    """One task in one house. `initial` is never changed: play on a copy."""

    task: str
    """The sentence the player is given, without "Your task is to: "."""
    goal: GoalCondition
    grammar: TextGrammar
    receptacles: tuple[str, ...]
    objects: tuple[str, ...]
    location: tuple[int, ...]
    """Per receptacle, where it stands; several may share a location."""
    initial: State
    accepts: tuple[int, ...]
    """Per receptacle: the objects that may be put there."""
    openable: int = 0
    pickupable: int = 0
    toggleable: int = 0
    sliceable: int = 0
    knives: int = 0
    vessels: int = 0
    """Objects that are receptacles themselves (bowls, boxes)."""
    inside: tuple[tuple[int, int], ...] = ()
    """(inner object, vessel) pairs; they never change."""
    washable: int = 0
    heatable: int = 0
    coolable: int = 0
    sinks: int = 0
    microwaves: int = 0
    fridges: int = 0
    walkthrough: tuple[str, ...] = ()
    places: tuple[tuple[int, ...], ...] = field(init=False)
    """Per location: the receptacles that stand there."""

    def __post_init__(self) -> None:
        places: list[list[int]] = [[] for _ in self.initial.at]
        for receptacle, location in enumerate(self.location):
            places[location].append(receptacle)
        object.__setattr__(self, "places", tuple(map(tuple, places)))
