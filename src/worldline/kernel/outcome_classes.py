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
MOST_CLASSES = 12
"""A classifier distinguishes no more classes than this."""
_FREQUENT, _MOST_FREQUENT = 0.02, MOST_CLASSES // 2
"""Where outcomes are many: the share of the steps that one has at least to be a class of its own, and how many are."""
_MOST_EXAMPLES = 32


class StepOutcome(NamedTuple):
    """What a step led to."""

    reward: float
    ended: bool
    success: bool


class OutcomeClasses:
    """The class of every outcome of a log."""

    def __init__(self, outcomes: Iterable[StepOutcome]) -> None:
        counts = Counter(outcomes)
        self.few = len(counts) <= MOST_CLASSES
        """Whether every outcome is a class of its own."""
        self._number = {one: at for at, one in enumerate(sorted(counts))} if self.few else _shared(counts)
        members: list[Counter[StepOutcome]] = [Counter() for _ in range(1 + max(self._number.values()))]
        for one, times in counts.items():
            members[self._number[one]][one] = times
        self.shares: Array = np.array([each.total() for each in members]) / counts.total()
        """How frequent each class is."""
        self._examples = [_examples(each) for each in members]
        """The outcomes of each class, or some of them that stand for all."""
        self._ends = np.array([next(iter(each)).ended for each in members])

    def __len__(self) -> int:
        return len(self.shares)

    def number(self, outcome: StepOutcome) -> int:
        """The class of an outcome of the log."""
        return self._number[outcome]

    def nearest(self, outcome: StepOutcome) -> int:
        """The class of an outcome; where the log does not have it, of one that ended so, with the nearest reward."""
        if outcome in self._number:
            return self._number[outcome]
        alike = [one for one in self._number if one.ended == outcome.ended] or [*self._number]
        return self._number[min(alike, key=lambda one: abs(one.reward - outcome.reward))]

    def summed(self, votes: Mapping[StepOutcome, float]) -> Array:
        """The votes for each class; what the log does not have is not counted."""
        out = np.zeros(len(self))
        for at, within in self._by_class(votes).items():
            out[at] = sum(within.values())
        return out

    def possible(self, votes: Mapping[StepOutcome, float]) -> npt.NDArray[np.bool_]:
        """Which classes may be beside these votes: what was always the last is the last, what never was is not."""
        possible = np.isin(self._ends, [one.ended for one in votes])
        return possible if possible.any() else ~possible

    def means(self, votes: Mapping[StepOutcome, float]) -> Array:
        """Of each class, the mean reward of its outcomes, weighed as in `spread`, and whether it ends (C, 2)."""
        by_class = self._by_class(votes)
        within = [by_class.get(at) or examples for at, examples in enumerate(self._examples)]
        rewards = [np.average([one.reward for one in each], weights=list(each.values())) for each in within]
        return np.stack([rewards, self._ends], 1)

    def spread(self, chances: Array, votes: Mapping[StepOutcome, float]) -> tuple[tuple[StepOutcome, ...], Array]:
        """The outcomes of classes with these chances: of each, those that have votes, else its examples."""
        by_class = self._by_class(votes)
        outcomes: dict[StepOutcome, float] = {}
        for at, chance in enumerate(chances.tolist()):
            if chance:
                within = by_class.get(at) or self._examples[at]
                total = sum(within.values())
                outcomes |= {one: chance * (share / total) for one, share in within.items()}
        return tuple(outcomes), np.array(list(outcomes.values()))

    def _by_class(self, votes: Mapping[StepOutcome, float]) -> dict[int, dict[StepOutcome, float]]:
        """The votes for outcomes that the log has."""
        by_class: dict[int, dict[StepOutcome, float]] = {}
        for one, share in votes.items():
            if share > 0 and one in self._number:
                by_class.setdefault(self._number[one], {})[one] = share
        return by_class


def _examples(members: Counter[StepOutcome]) -> dict[StepOutcome, float]:
    """The outcomes of a class; of many, quantiles of equal weight, so that a step costs the same in any log."""
    if len(members) <= _MOST_EXAMPLES:
        return {one: float(times) for one, times in members.items()}
    ordered = sorted(members.elements())
    middles = (np.arange(_MOST_EXAMPLES) + 0.5) / _MOST_EXAMPLES * len(ordered)
    return {one: float(times) for one, times in Counter(ordered[int(at)] for at in middles).items()}


def _shared(counts: Counter[StepOutcome]) -> dict[StepOutcome, int]:
    """Classes of many outcomes."""
    by_frequency = sorted(counts, key=lambda one: (-counts[one], one))[:_MOST_FREQUENT]
    frequent = [one for one in by_frequency if counts[one] >= _FREQUENT * counts.total()]
    number = {one: at for at, one in enumerate(sorted(frequent))}
    rest = sorted(one for one in counts if one not in number)
    endings = sorted({one[1:] for one in rest})
    free = MOST_CLASSES - len(number) - len(endings)
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
