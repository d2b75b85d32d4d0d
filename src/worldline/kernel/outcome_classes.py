"""The classes that a classifier of outcomes distinguishes.

Where outcomes are few, each is a class. Where they are many (a price, a cost for every step), the frequent ones are
classes of their own, and the others share the rest: those that end an episode alike, by quantiles of their reward.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
MOST = 12
"""A classifier distinguishes no more classes than this."""
_FREQUENT, _MOST_FREQUENT = 0.02, MOST // 2
"""Where outcomes are many: the share of the steps that one has at least to be a class of its own, and how many are."""


class StepOutcome(NamedTuple):
    """What a step led to."""

    reward: float
    ended: bool
    success: bool


class OutcomeClasses:
    """The class of every outcome of a log."""

    def __init__(self, outcomes: Iterable[StepOutcome]) -> None:
        counts = Counter(outcomes)
        self.few = len(counts) <= MOST
        """Whether every outcome is a class of its own."""
        self._number = {one: at for at, one in enumerate(sorted(counts))} if self.few else _shared(counts)
        self._members: list[Counter[StepOutcome]] = [Counter() for _ in range(1 + max(self._number.values()))]
        """The outcomes of each class, and how often the log has them."""
        for one, times in counts.items():
            self._members[self._number[one]][one] = times
        self.shares: Array = np.array([members.total() for members in self._members]) / counts.total()
        """How frequent each class is."""

    def __len__(self) -> int:
        return len(self._members)

    def number(self, outcome: StepOutcome) -> int:
        """The class of an outcome of the log."""
        return self._number[outcome]

    def summed(self, votes: Mapping[StepOutcome, float]) -> Array:
        """The votes for each class; what the log does not have is not counted."""
        out = np.zeros(len(self))
        for one, share in votes.items():
            if one in self._number:
                out[self._number[one]] += share
        return out

    def possible(self, votes: Mapping[StepOutcome, float]) -> npt.NDArray[np.bool_]:
        """Which classes may be beside these votes: what was always the last is the last, what never was is not."""
        ended = {one.ended for one in votes}
        return np.array([next(iter(members)).ended in ended for members in self._members])

    def means(self, votes: Mapping[StepOutcome, float]) -> Array:
        """Of each class, the mean reward of its outcomes, weighed as in `spread`, and whether it ends (C, 2)."""
        means = []
        for members in self._members:
            within = _within(members, votes)
            reward = sum(share * one.reward for one, share in within.items()) / sum(within.values())
            means.append((reward, float(next(iter(members)).ended)))
        return np.array(means)

    def spread(self, chances: Array, votes: Mapping[StepOutcome, float]) -> tuple[tuple[StepOutcome, ...], Array]:
        """The outcomes of classes with these chances: of each, those that have votes, else all that the log has."""
        outcomes: dict[StepOutcome, float] = {}
        for members, chance in zip(self._members, chances.tolist(), strict=True):
            if not chance:
                continue
            within = _within(members, votes)
            total = sum(within.values())
            outcomes |= {one: chance * share / total for one, share in within.items()}
        return tuple(outcomes), np.array(list(outcomes.values()))


def _within(members: Counter[StepOutcome], votes: Mapping[StepOutcome, float]) -> Mapping[StepOutcome, float]:
    """The outcomes of a class that have votes; all of them, as the log has them, where none has."""
    return {one: votes[one] for one in members if votes.get(one, 0.0) > 0} or members


def _shared(counts: Counter[StepOutcome]) -> dict[StepOutcome, int]:
    """Classes of many outcomes."""
    frequent = [one for one, times in counts.most_common(_MOST_FREQUENT) if times >= _FREQUENT * counts.total()]
    number = {one: at for at, one in enumerate(sorted(frequent))}
    rest = sorted(one for one in counts if one not in number)
    endings = sorted({one[1:] for one in rest})
    free = MOST - len(number) - len(endings)
    steps = sum(counts[one] for one in rest)
    first = len(number)
    for ending in endings:
        members = [one for one in rest if one[1:] == ending]
        times = np.array([counts[one] for one in members])
        bins = 1 + int(free * times.sum() / steps)
        middles = (np.cumsum(times) - times / 2) / times.sum()
        _, places = np.unique((bins * middles).astype(int), return_inverse=True)
        number |= {one: first + int(place) for one, place in zip(members, places, strict=True)}
        first += 1 + int(places.max())
    return number
