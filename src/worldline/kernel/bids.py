"""The numbers that actions were about, and how they were answered: too low, too high, one failed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from worldline.kernel.language import first_number
from worldline.kernel.phrases import Phrase

Bid = tuple[float, str]
"""The number that an action is about, and the sort of the answer to it."""
Bids = Mapping[str, Sequence[Bid]]
"""By the skeleton of the action."""
_REMEMBERED, _OTHERS = 9, 3
"""Latest bids of an episode, and other skeletons whose bids are looked at."""


@dataclass(frozen=True)
class EpisodeBids:
    """The latest bids of an episode."""

    of: Mapping[str, tuple[Bid, ...]] = field(default_factory=dict)
    """By skeleton; below, of all actions that have a number themselves."""
    named: tuple[Bid, ...] = ()
    number: float | None = None
    """The first number of the latest action that had one."""

    def about(self, phrase: Phrase, action: str) -> float | None:
        """The number that an action is about: its first one; where it names nothing, that of the latest that had one.

        "test" is about what "checkout 57" was.
        """
        number = first_number(action)
        return self.number if number is None and not phrase.names else number

    def after(self, phrase: Phrase, action: str, sort: str) -> Self:
        """With one more action that had an answer of this sort."""
        about, number = self.about(phrase, action), first_number(action)
        if about is None:
            return self
        bid = about, sort
        of = {**self.of, phrase.skeleton: (*self.of.get(phrase.skeleton, ()), bid)[-_REMEMBERED:]}
        if number is None:
            return type(self)(of, self.named, self.number)
        return type(self)(of, (*self.named, bid)[-_REMEMBERED:], number)

    def like(self, phrase: Phrase, action: str) -> Sequence[Bid]:
        """The bids that an action is beside: of its skeleton alone, where it has no number itself."""
        return self.named if first_number(action) is not None else self.of.get(phrase.skeleton, ())


def neighbours(number: float, bids: Sequence[Bid]) -> Iterable[str]:
    """The nearest bids below and above the number: what was answered to them, with and without how far they are."""
    below = max((bid for bid in bids if bid[0] <= number), default=None)
    above = min((bid for bid in bids if bid[0] > number), default=None)
    sides = ["none" if side is None else f"{side[1]} {_distance(abs(number - side[0]))}" for side in (below, above)]
    yield f"below {sides[0]}"
    yield f"above {sides[1]}"
    yield f"between {sides[0]} and {sides[1]}"
    heard = ["none" if side is None else side[1] for side in (below, above)]
    yield f"beyond {heard[0]}"
    yield f"short of {heard[1]}"
    yield f"amid {heard[0]} and {heard[1]}"


def among(own: EpisodeBids, of_task: Bids, phrase: Phrase, action: str) -> Iterator[str]:
    """Where an action's number lies among those that its task and its episode have tried, by what was tried of them."""
    number, skeleton = own.about(phrase, action), phrase.skeleton
    if number is None:
        return
    if tried := of_task.get(skeleton):
        yield from (f"task {text}" for text in neighbours(number, tried))
        yield from (f"all {text}" for text in neighbours(number, [*tried, *own.like(phrase, action)]))
    others = {other: [*of_task.get(other, ()), *own.of.get(other, ())] for other in {**of_task, **own.of}}
    others.pop(skeleton, None)
    for other in sorted(others, key=lambda one: (-len(others[one]), one))[:_OTHERS]:
        yield from (f"of {other} {text}" for text in neighbours(number, others[other]))


def _distance(gap: float) -> int:
    """Small gaps as they are, large ones by their size."""
    return int(gap) if gap < 4 else 3 + int(np.log2(gap))
