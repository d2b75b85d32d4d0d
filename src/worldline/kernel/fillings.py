"""How the actions of a log's lists are made of names: which kinds stand in which place, and who listed what.

A kind is a name, or an action, without its numbers.
"""

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from worldline.kernel.phrases import Phrasing, blanked

SLOTS = 2
"""Names that a filled action has at most."""
_FILLINGS, _NAME_WORDS, _DEEDS, _TASKS = 40, 4, 8, 3
_REMEMBERED = 1 << 14
"""Texts whose names are kept at once."""
IN_THE_TASK = 3
"""What `listed_elsewhere` says where another episode of the task listed it."""
EpisodeList = tuple[int, str, tuple[str, ...]]
"""The number of an episode, its task, and what it listed at some step."""
_WORD, _DIGITS = re.compile(r"\w+"), re.compile(r"\d+")


@dataclass(frozen=True)
class ActionTemplate:
    """An action taken apart at its names: the texts between them, and which name each is."""

    texts: tuple[str, ...]
    slots: tuple[int, ...]

    @classmethod
    def of(cls, action: str, names: Sequence[str]) -> "ActionTemplate":
        taken_apart = re.split(r"<(\d+)>", blanked(action, names))
        return cls(tuple(taken_apart[::2]), tuple(map(int, taken_apart[1::2])))

    def filled(self, names: Sequence[str]) -> str:
        """The action with these names in the place of its own."""
        named = [names[slot] + text for slot, text in zip(self.slots, self.texts[1:], strict=True)]
        return self.texts[0] + "".join(named)


class Fillings:
    """Which names stand in which slot of which skeleton, their numbers left out, and what each episode listed."""

    def __init__(self, phrasing: Phrasing, lists: Sequence[EpisodeList], done: Iterable[str]) -> None:
        self._episodes: dict[tuple[str, str], set[int]] = defaultdict(set)
        """Of each kind of action and task, two episodes at most that listed it; below, of each kind, three tasks."""
        self._tasks: dict[str, set[str]] = defaultdict(set)
        for episode, task, listed in dict.fromkeys(lists):
            for kind in {_kind(action) for action in listed}:
                _add(self._episodes[kind, task], episode, 2)
                _add(self._tasks[kind], task, _TASKS)
        actions = {action for _, _, listed in lists for action in listed}
        self._templates: dict[str, ActionTemplate] = {}
        self._kinds: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self._all_kinds: set[str] = set()
        for action in sorted(actions):
            phrase = phrasing.parse(action)
            if phrase.skeleton not in self._templates:
                self._templates[phrase.skeleton] = ActionTemplate.of(action, phrase.names)
            for slot, name in enumerate(phrase.names):
                self._all_kinds.add(_kind(name))
                self._kinds[phrase.skeleton][slot].add(_kind(name))
        slots_with: dict[str, list[set[str]]] = defaultdict(list)
        for kinds in (kinds for slots in self._kinds.values() for kinds in slots.values()):
            for kind in kinds:
                slots_with[kind].append(kinds)
        self._fitting = {
            skeleton: [(kinds, _stand_ins(kinds, slots_with)) for _, kinds in sorted(slots.items())]
            for skeleton, slots in self._kinds.items()
            if len(slots) <= SLOTS
        }
        """Of each skeleton and slot, the kinds that stood in it, and those that may."""
        often = Counter(phrasing.parse(action).skeleton for action in done).most_common()
        self.deeds = tuple(skeleton for skeleton, _ in often if skeleton in self._templates)[:_DEEDS]
        """The skeletons of what was most often done, of those that were ever listed."""
        self._first_words = {kind.partition(" ")[0] for kind in self._all_kinds}
        self._in_view: dict[str, list[str]] = {}
        self._longest = min(max((len(kind.split()) for kind in self._all_kinds), default=1), _NAME_WORDS)

    def listed_elsewhere(self, action: str, task: str, own: int, as_new: bool) -> int:
        """In how many other tasks an action was listed that has other numbers at most; 2 for more.

        `IN_THE_TASK` where an episode of this task did, but for `own`, and the task is not taken `as_new`.
        """
        kind = _kind(action)
        listed_by = () if as_new else self._episodes.get((kind, task), ())
        if len(listed_by) > (own in listed_by):
            return IN_THE_TASK
        tasks = self._tasks.get(kind, ())
        return min(2, len(tasks) - (task in tasks))

    def in_view(self, text: str) -> list[str]:
        """What the text has like the names of the log's actions, numbers aside, the longest at each place."""
        names = self._in_view.get(text)
        if names is None:
            if len(self._in_view) >= _REMEMBERED:
                self._in_view.clear()
            names = self._in_view[text] = self._names_in(text)
        return names

    def _names_in(self, text: str) -> list[str]:
        words = _WORD.findall(text.lower())
        out: dict[str, None] = {}
        at = 0
        while at < len(words):
            longest = min(self._longest, len(words) - at) if _kind(words[at]) in self._first_words else 0
            for many in range(longest, 0, -1):
                run = " ".join(words[at : at + many])
                if _kind(run) in self._all_kinds:
                    out[run] = None
                    break
            else:
                many = 1
            at += many
        return list(out)

    def filled(self, names: Sequence[str], goal_words: frozenset[str] = frozenset()) -> Iterable[str]:
        """Every action that can be made of these names as the log makes actions.

        A name with a word of the goal may also stand where others of its kind stood (`_stand_ins`).
        """
        kinds = [(name, _kind(name), not goal_words.isdisjoint(_WORD.findall(name))) for name in names]
        for skeleton, slots in self._fitting.items():
            fitting = [
                [name for name, kind, of_goal in kinds if kind in (stand_ins if of_goal else those)]
                for those, stand_ins in slots
            ]
            if all(fitting):
                filled = self._templates[skeleton].filled
                for combination in itertools.islice(itertools.product(*fitting), _FILLINGS):
                    if len(set(combination)) == len(combination):
                        yield filled(combination)


def _stand_ins(kinds: set[str], slots_with: Mapping[str, Sequence[set[str]]]) -> set[str]:
    """The kinds of the narrowest slot that has all of these and more: what was taken may be cooled.

    `slots_with`: of each kind, the slots that it stood in.
    """
    fewest = min((slots_with[kind] for kind in kinds), key=len)
    return min((other for other in fewest if kinds < other), key=len, default=kinds)


def _add(those: set[Any], one: object, most: int) -> None:
    if len(those) < most:
        those.add(one)


@functools.lru_cache(maxsize=1 << 14)
def _kind(name: str) -> str:
    """A name or an action without its numbers."""
    return _DIGITS.sub("#", name.lower())
