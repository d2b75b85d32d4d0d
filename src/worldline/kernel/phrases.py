"""Like-worded texts: the words that most tasks share, and the names between them.

"take cup 1 from shelf 2" and "take fork 3 from desk 1" are worded alike: their skeleton is "take * from *", their names
are "cup 1", "shelf 2" and "fork 3", "desk 1". Which words are shared is counted in the log's actions. What the world
answered to one of them can then answer the other, with the names exchanged.
"""

import functools
import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from worldline.kernel.goal_words import GoalWords
from worldline.kernel.words import derive_vocabulary, plain_words
from worldline.types import Trajectory

SHARED = 0.88
"""A word is shared, no name, if at least this share of the different actions of a verb have it."""
_OFTEN = 0.25
"""Or this share, where actions of `SHARED` of all tasks have the word: "put cup in box", "put cup on shelf"."""
_ACTIONS = 20
"""Different actions that a verb must have for that; of another, words of `SHARED` of the tasks are shared."""
_TRIED, _TRIALS = 600, 16
"""Steps at which two ways of taking actions apart are tried, and like-worded steps that are looked at for each."""
_WORD = re.compile(r"\w+")
_ODD_LETTERS = re.compile("[\u0130\u0131\u017f\u03a3]")
"""Letters that patterns take for i and s, and whose lower case is none of these; one with two lower cases."""
_REMEMBERED = 1 << 15
"""Actions that are kept with the words of their goal."""
_LONG = 300
"""Characters of a text from which on the vocabulary of the renamed text is derived: a shorter one is read as fast."""
Renaming = tuple[tuple[str, str], ...]
"""Pairs of an old and a new name."""


@dataclass(frozen=True)
class Phrase:
    """A text taken apart: its shared words with `*` for each name, and the names as they are spelled."""

    skeleton: str
    names: tuple[str, ...]
    given: tuple[str, ...] = ()
    """The words that the goal gives to the answers, in its order."""

    @property
    def verb(self) -> str:
        """The first word."""
        return self.skeleton.partition(" ")[0]

    @functools.cached_property
    def lowered(self) -> tuple[str, ...]:
        """The names in lower case."""
        return tuple(name.lower() for name in self.names)

    def blanked(self, text: str) -> str:
        """The text with the n-th name replaced by `<n>`, and the n-th word that the goal gives by `<gn>`."""
        return _blanked(text, self.names, self.given)


@functools.lru_cache(maxsize=1 << 14)
def _blanked(text: str, names: tuple[str, ...], given: tuple[str, ...]) -> str:
    """A step asks for the same text several times."""
    return exchanged(blanked(text, names), _marks(given))


@dataclass(frozen=True)
class Phrasing:
    """How the actions of a log are worded."""

    shared: frozenset[str]
    of_verbs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of a verb with many actions, the words they share: "with" in "clean cup 1 with sink 1", where few tasks clean."""
    goal_words: GoalWords = field(default_factory=GoalWords)
    names: frozenset[str] | None = None
    """Where actions are sentences: the words that are names, beside numbers. All others are shared."""
    _parsed: dict[str, Phrase] = field(default_factory=dict, repr=False)
    _parsed_in: dict[tuple[str, str], Phrase] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, episodes: Sequence[Trajectory]) -> "Phrasing":
        tasks_with: dict[str, set[str]] = defaultdict(set)
        worded: dict[str, tuple[str, ...]] = {}
        for episode in episodes:
            for action in {a for step in episode.steps for a in (step.action, *(step.admissible or ()))}:
                if action not in worded:
                    worded[action] = tuple(dict.fromkeys(_WORD.findall(action.lower())))
                for word in worded[action]:
                    tasks_with[word].add(episode.task_id)
        tasks = len({episode.task_id for episode in episodes})
        common = frozenset(w for w, those in tasks_with.items() if len(those) >= SHARED * tasks and not w.isdigit())
        of_verbs = _of_verbs(worded.values(), common)
        deeds = common.union(_verbs(episodes), *of_verbs.values())
        by_words = cls(common, of_verbs, GoalWords.of(episodes, deeds))
        by_goals = cls(common, of_verbs, by_words.goal_words, by_words.goal_words.words)
        return by_goals if by_goals.names and _is_simpler(by_goals, by_words, episodes) else by_words

    def parse(self, action: str) -> Phrase:
        """The action's skeleton and names. The first word is a name only if it is a number, or where actions are
        sentences."""
        phrase = self._parsed.get(action)
        if phrase is None:
            phrase = self._parsed[action] = self._taken_apart(action)
        return phrase

    def _taken_apart(self, action: str) -> Phrase:
        skeleton: list[str] = []
        names: list[str] = []
        start = end = -1
        shared = self.shared
        for place, match in enumerate(_WORD.finditer(action)):
            word = match[0].lower()
            if place == 0:
                shared = self.of_verbs.get(word, shared)
            if self.names is not None:
                is_name = word in self.names or word.isdigit()
            else:
                is_name = word not in shared and (place > 0 or word.isdigit())
            if not is_name:
                if start >= 0:
                    names.append(action[start:end])
                    skeleton.append("*")
                    start = -1
                skeleton.append(word)
            else:
                start, end = match.start() if start < 0 else start, match.end()
        if start >= 0:
            names.append(action[start:end])
            skeleton.append("*")
        return Phrase(" ".join(skeleton), tuple(names))

    def parse_in(self, goal: str, action: str) -> Phrase:
        """The same, with the words that the goal gives to the answers."""
        phrase = self._parsed_in.get((goal, action))
        if phrase is None:
            if len(self._parsed_in) >= _REMEMBERED:
                self._parsed_in.clear()
            phrase = self._parsed_in[goal, action] = replace(self.parse(action), given=self.goal_words.given(goal))
        return phrase

    def renaming(self, old: str, new: str) -> Renaming | None:
        """The names of one action to those of another; None if they are not worded alike."""
        first, second = self.parse(old), self.parse(new)
        if first.skeleton != second.skeleton:
            return None
        return tuple(pair for pair in zip(first.names, second.names, strict=True) if pair[0] != pair[1])


def _is_simpler(one: Phrasing, other: Phrasing, episodes: Sequence[Trajectory]) -> bool:
    """Whether one way of taking actions apart finds half as many skeletons, and its names tell answers no worse."""
    rows = [
        (number, step.action, answer)
        for number, episode in enumerate(episodes)
        for step, answer in zip(episode.steps, episode.next_observations, strict=True)
    ]
    skeletons = [len({way.parse(action).skeleton for _, action, _ in rows}) for way in (one, other)]
    return 2 * skeletons[0] <= skeletons[1] and _answered_by_names(one, rows) >= _answered_by_names(other, rows)


def _answered_by_names(phrasing: Phrasing, rows: Sequence[tuple[int, str, str]]) -> float:
    """How often the answer to a like-worded action of another episode is what was answered, with names exchanged."""
    like: dict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for row in rows:
        like[phrasing.parse(row[1]).skeleton].append(row)
    rng, shares = random.Random(0), []
    for number, action, answer in rng.sample(rows, min(_TRIED, len(rows))):
        own = like[phrasing.parse(action).skeleton]
        others = [row for row in rng.sample(own, min(_TRIALS, len(own))) if row[0] != number]
        equal = [renamed(row[2], phrasing.renaming(row[1], action) or ()) == answer for row in others]
        shares.append(sum(equal) / max(1, len(equal)))
    return sum(shares) / max(1, len(shares))


def _verbs(episodes: Iterable[Trajectory]) -> frozenset[str]:
    """First words of actions, but for those that only tasks with such a word in their goal begin with: "Mia, look"."""
    return frozenset(
        words[0]
        for episode in episodes
        for action in {a for step in episode.steps for a in (step.action, *(step.admissible or ()))}
        if (words := _WORD.findall(action.lower())) and words[0] not in plain_words(episode.goal)
    )


def _of_verbs(actions: Iterable[Sequence[str]], common: frozenset[str]) -> dict[str, frozenset[str]]:
    """The words that actions of a verb share; each action is given by its words. `common` ones are in most tasks."""
    by_verb: dict[str, list[Sequence[str]]] = defaultdict(list)
    for words in actions:
        if words:
            by_verb[words[0]].append(words)
    shared = {}
    for verb, those in by_verb.items():
        counts = Counter(word for words in those for word in words if not word.isdigit())
        least = {word: (_OFTEN if word in common else SHARED) * len(those) for word in counts}
        if len(those) >= _ACTIONS:
            shared[verb] = frozenset(word for word, count in counts.items() if count >= least[word])
    return shared


@functools.lru_cache(maxsize=1 << 14)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(names, key=len, reverse=True)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)", re.IGNORECASE)


def renamed(text: str, renaming: Renaming) -> str:
    """The text with every old name replaced by the new one, all at once."""
    return _renamed(text, renaming) if renaming else text


@functools.lru_cache(maxsize=1 << 14)
def _renamed(text: str, renaming: Renaming) -> str:
    new, of_words = _new_names(renaming)
    out = exchanged(text, new)
    if of_words and len(text) >= _LONG and out is not text and _lowered(text) is not None:
        derive_vocabulary(out, text, new)
    return out


@functools.lru_cache(maxsize=1 << 14)
def _new_names(renaming: Renaming) -> tuple[dict[str, str], bool]:
    """New names by old ones in lower case, and whether each of these is one word: then none of it is left in a text."""
    new = {old.lower(): name for old, name in renaming}
    return new, "".join(itertools.chain(*new.items())).isascii() and all(map(_WORD.fullmatch, new))


@functools.lru_cache(maxsize=1 << 12)
def renamed_set(texts: tuple[str, ...], renaming: Renaming) -> frozenset[str]:
    """The texts, renamed: in one pass, as lines of one text."""
    if not renaming:
        return frozenset(texts)
    lines = exchanged("\n".join(texts), _new_names(renaming)[0]).split("\n")
    if len(lines) != len(texts):  # a text or a name has lines of its own
        return frozenset(renamed(text, renaming) for text in texts)
    return frozenset(lines)


def blanked(text: str, names: Iterable[str]) -> str:
    """The text with the n-th name replaced by `<n>`."""
    return exchanged(text, _places(tuple(names)))


@functools.lru_cache(maxsize=1 << 12)
def _places(names: tuple[str, ...]) -> dict[str, str]:
    """Of each name in lower case, the first place that it has."""
    return {name.lower(): f"<{place}>" for place, name in reversed([*enumerate(names)])}


@functools.lru_cache(maxsize=1 << 12)
def _marks(given: tuple[str, ...]) -> dict[str, str]:
    """Of each word that a goal gives, in lower case, its mark: no word of a language, and no number."""
    return {word.lower(): f"<g{place}>" for place, word in enumerate(given)}


def blanked_given(text: str, phrase: Phrase) -> str:
    """A text in lower case without the words that the goal gives."""
    return exchanged(text, _marks(phrase.given)).lower()


def exchanged(text: str, new: Mapping[str, str]) -> str:
    """The text with other words in the place of names, which are given in lower case.

    Patterns take some letters for one (I and \u0130, s and \u017f) that have no lower case in common: what is no name
    by its lower case stays.
    """
    if not new:
        return text
    lowered = _lowered(text) if "".join(new).isascii() else None
    if lowered is not None:  # no pattern is made: most names are met in few texts
        return _exchanged_at_once(text, lowered, new)
    return _pattern(tuple(new)).sub(lambda match: new.get(match[0].lower(), match[0]), text)


@functools.lru_cache(maxsize=1 << 14)
def _lowered(text: str) -> str | None:
    """The text in lower case; None where this does not say which letters a pattern takes for one."""
    return text.lower() if text.isascii() or not _ODD_LETTERS.search(text) else None


def _exchanged_at_once(text: str, lowered: str, new: Mapping[str, str]) -> str:
    """The same: the leftmost name first, the longest of those that begin at one place, whole words only."""
    places = []
    for name in new:
        at = lowered.find(name)
        while at >= 0:
            end = at + len(name)
            if not (at and _in_word(lowered[at - 1])) and not (end < len(text) and _in_word(lowered[end])):
                places.append((at, -end, name))
            at = lowered.find(name, at + 1)
    parts, done = [], 0
    for at, minus_end, name in sorted(places):
        if at >= done:
            parts += [text[done:at], new[name]]
            done = -minus_end
    return "".join([*parts, text[done:]]) if parts else text


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
