"""The names that goals have: what one task asks for, and what stands in its place in another.

"Put a clean cup on the desk" and "heat some egg, put it in the bin" are worded differently. Still the cup is here what
the egg is there: things are taken and heated, places are gone to. What a name is like is counted in the log's actions.
"""

import difflib
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from worldline.kernel.phrases import Phrasing, Renaming
from worldline.kernel.words import vocabulary
from worldline.types import Trajectory

ALIKE = 0.5
"""Roles that two words must share, as a share of all that either has."""
_NAMES, _REMEMBERED = 16, 1 << 15
"""Goals that differ in more names have no counterparts: every pair is compared. Renamings that are kept at once."""
_LETTERS = re.compile(r"[^\W\d_]+")
_TERM = re.compile(r"\w(?:[\w./@:+-]*\w)?")
"""A word, with marks inside it: "release/4.5"."""
LIKE_WORDED, _LONGEST = 0.6, 120
"""Of the terms of two goals, the share that must be the same for the others to have counterparts; how many are read."""
_Role = tuple[str, int]
"""A skeleton, and a place in it."""
_Roles = frozenset[_Role]


@functools.lru_cache(maxsize=_REMEMBERED)
def aligned(old: str, new: str) -> Renaming:
    """The terms of one goal to those in their place in another that is worded alike; none where it is not."""
    theirs, ours = _terms(old), _terms(new)
    if old == new or max(len(theirs), len(ours)) > _LONGEST:
        return ()
    matcher = _matcher(new)
    matcher.set_seq1(theirs)
    bounds = matcher.real_quick_ratio, matcher.quick_ratio, matcher.ratio  # the first two are cheap, and never less
    if any(share() < LIKE_WORDED for share in bounds):
        return ()
    counterparts: dict[str, str] = {}
    for what, first, end, our_first, our_end in matcher.get_opcodes():
        if what == "replace" and end - first == our_end - our_first:
            for term, ours_there in zip(theirs[first:end], ours[our_first:our_end], strict=True):
                counterparts.setdefault(term, ours_there)
    return tuple(counterparts.items())


@functools.lru_cache(maxsize=1 << 10)
def _terms(goal: str) -> list[str]:
    return _TERM.findall(goal)


@functools.lru_cache(maxsize=1 << 10)
def _matcher(goal: str) -> difflib.SequenceMatcher[str]:
    """What compares others with the terms of a goal: it indexes these once."""
    return difflib.SequenceMatcher(None, "", _terms(goal), autojunk=False)


class GoalNames:
    """Words of goals that are names in actions, each with its roles."""

    def __init__(self, episodes: Sequence[Trajectory], phrasing: Phrasing) -> None:
        self._phrasing = phrasing
        wanted = frozenset(word for goal in {episode.goal for episode in episodes} for word in vocabulary(goal))
        actions = {a for e in episodes for step in e.steps for a in (step.action, *(step.admissible or ()))}
        all_roles: dict[str, set[_Role]] = defaultdict(set)
        for action in actions:
            phrase = phrasing.parse(action)
            for slot, name in enumerate(phrase.lowered):
                for word in wanted.intersection(_LETTERS.findall(name)):
                    all_roles[word].add((phrase.skeleton, slot))
        distinct: dict[_Roles, _Roles] = {}
        sets = ((word, frozenset(roles)) for word, roles in all_roles.items())
        self._roles = {word: distinct.setdefault(roles, roles) for word, roles in sets}
        self._names: dict[str, frozenset[str]] = {}
        self._renamings: dict[tuple[str, str], Renaming] = {}
        self._alike: dict[tuple[_Roles, _Roles], float] = {}

    def of(self, goal: str) -> frozenset[str]:
        """The names that a goal has."""
        names = self._names.get(goal)
        if names is None:
            if len(self._names) >= _REMEMBERED:
                self._names.clear()
            names = self._names[goal] = vocabulary(goal) & self._roles.keys()
        return names

    def shows(self, goal: str, action: str, answer: str) -> bool:
        """Whether the answer has a name of the goal that the action has not."""
        return not (self.of(goal) - vocabulary(action)).isdisjoint(vocabulary(answer))

    def shows_given(self, goal: str, answer: str) -> bool:
        """Whether the answer has a word that the goal gives and that is in no action's names."""
        given = {word.lower() for word in self._phrasing.goal_words.given(goal)}
        return not (given - self._roles.keys()).isdisjoint(vocabulary(answer))

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
        alike: list[tuple[float, str, str]] = []
        new_by_roles = self._by_roles(ours)
        for roles, olds in self._by_roles(theirs).items():
            for other_roles, news in new_by_roles.items():
                likeness = self._likeness(roles, other_roles)
                if likeness >= ALIKE:
                    alike += [(-likeness, old, new) for old in olds for new in news]
        used: set[str] = set()
        for _, old, new in sorted(alike):
            if used.isdisjoint((old, new)):
                used |= {old, new}
                yield old, new

    def _by_roles(self, names: frozenset[str]) -> dict[_Roles, list[str]]:
        grouped: dict[_Roles, list[str]] = defaultdict(list)
        for name in names:
            grouped[self._roles[name]].append(name)
        return grouped

    def _likeness(self, first: _Roles, second: _Roles) -> float:
        likeness = self._alike.get((first, second))
        if likeness is None:
            likeness = self._alike[first, second] = len(first & second) / len(first | second)
        return likeness
