"""The names that goals have: what one task asks for, and what stands in its place in another.

"Put a clean cup on the desk" and "heat some egg, put it in the bin" are worded differently. Still the cup is here what
the egg is there: things are taken and heated, places are gone to. What a name is like is counted in the log's actions.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from worldline.kernel.phrases import Phrasing, Renaming
from worldline.kernel.words import vocabulary
from worldline.types import Trajectory

ALIKE = 0.5
"""Roles that two words must share, as a share of all that either has."""
_NAMES, _REMEMBERED = 16, 1 << 14
"""Goals that differ in more names have no counterparts: every pair is compared. Renamings that are kept at once."""
_LETTERS = re.compile(r"[^\W\d_]+")
_Role = tuple[str, int]
"""A skeleton, and a place in it."""


class GoalNames:
    """Words of goals that are names in actions, each with its roles."""

    def __init__(self, episodes: Sequence[Trajectory], phrasing: Phrasing) -> None:
        wanted = frozenset(word for goal in {episode.goal for episode in episodes} for word in vocabulary(goal))
        actions = {a for e in episodes for step in e.steps for a in (step.action, *(step.admissible or ()))}
        self._roles: dict[str, set[_Role]] = defaultdict(set)
        for action in actions:
            phrase = phrasing.parse(action)
            for slot, name in enumerate(phrase.lowered):
                for word in wanted.intersection(_LETTERS.findall(name)):
                    self._roles[word].add((phrase.skeleton, slot))
        self._renamings: dict[tuple[str, str], Renaming] = {}
        self._alike: dict[tuple[str, str], float] = {}

    def of(self, goal: str) -> frozenset[str]:
        """The names that a goal has."""
        return vocabulary(goal) & self._roles.keys()

    def shows(self, goal: str, action: str, answer: str) -> bool:
        """Whether the answer has a name of the goal that the action has not."""
        return not (self.of(goal) - vocabulary(action)).isdisjoint(vocabulary(answer))

    def renaming(self, old: str, new: str) -> Renaming:
        """The names of one goal to those with the same roles in another; a name that both have stays."""
        renaming = self._renamings.get((old, new))
        if renaming is None:
            theirs, ours = self.of(old), self.of(new)
            if len(self._renamings) >= _REMEMBERED:
                self._renamings.clear()
            renaming = self._renamings[old, new] = tuple(self._counterparts(theirs - ours, ours - theirs))
        return renaming

    def _counterparts(self, theirs: frozenset[str], ours: frozenset[str]) -> Iterable[tuple[str, str]]:
        if max(len(theirs), len(ours)) > _NAMES:
            return
        likeness = sorted((-self._likeness(old, new), old, new) for old in theirs for new in ours)
        used: set[str] = set()
        for unlike, old, new in likeness:
            if -unlike >= ALIKE and used.isdisjoint((old, new)):
                used |= {old, new}
                yield old, new

    def _likeness(self, first: str, second: str) -> float:
        likeness = self._alike.get((first, second))
        if likeness is None:
            here, there = self._roles[first], self._roles[second]
            likeness = self._alike[first, second] = len(here & there) / len(here | there)
        return likeness
