"""How texts of one log are taken apart and compared: codes, wordings, numbers, shapes of lists."""

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from worldline.kernel.numerals import AFTER_THE_FIRST_DIGIT, NUMBER, NumberRanges, size
from worldline.kernel.paths import FEWEST, SURE, Moves, opening
from worldline.kernel.phrases import Phrase, Phrasing, blanked_given, exchanged
from worldline.kernel.shared_facts import Fact, SharedFacts
from worldline.kernel.vectors import Array, TextTable, WordWeights
from worldline.kernel.words import plain_words, stable_hash, vocabulary
from worldline.types import Trajectory

Listed = tuple[str, ...] | None
Happening = tuple[str, str]
"""The skeleton of an action, and the wording of the first sentence of what was answered."""
_WORD, _SENTENCE = re.compile(r"\w+"), re.compile(r"[^.!?\n]+[.!?]*")
_NUMBER = re.compile(rf"(?:(?<!\S)-)?{NUMBER}")
"""Below zero after a space only: "5-7" is a range."""
_LAST_NUMBERS = re.compile(r"\d[\d.,]*(?:-(?=\s|$))?")
"""In a text from its end: the last digit, and all digits, points and commas before it."""
_FREE_NUMBER = re.compile(rf"\d(?<![\w<]\d){AFTER_THE_FIRST_DIGIT}")
"""A number that is no part of a word and not the place of a blanked name."""
_COMMON = 0.5
"""Words that this share of all texts has relate nothing to anything."""
_SENTENCES, _LONGEST = 12, 40
"""Sentences of a text that are read, and the words of the longest."""
_KEPT = 1 << 14
"""Answers whose facts are kept at most."""
_FACTS, _BEGINNING = 8, 2
"""Sentences of an answer that are facts, and the words by which a sentence begins."""
_FEWEST_TASKS = 100
"""Tasks of a log that tell a word of one task from a word that is merely rare."""
_FILLINGS, _OFTEN = 16, 8
"""Fillings of a wording that are distinguished at most, and how often each of them must be in the log on average."""


def code(*parts: object) -> int:
    """A number for these parts, the same in every process."""
    return stable_hash(repr(parts)) >> 1


def wording(answer: str, phrase: Phrase) -> str:
    """An answer without its numbers, the names of the action it answers and the words that the goal gives it."""
    return _wording(answer, phrase)


@functools.lru_cache(maxsize=1 << 14)
def _wording(answer: str, phrase: Phrase) -> str:
    return _without_numbers(phrase.blanked(answer))


def free_numbers(answer: str, phrase: Phrase) -> tuple[float, ...]:
    """The numbers that `wording` leaves out, in order."""
    return _free_numbers(phrase.blanked(answer))


@functools.lru_cache(maxsize=1 << 14)
def _free_numbers(blanked: str) -> tuple[float, ...]:
    return tuple(size(number) for number in _FREE_NUMBER.findall(blanked))


@functools.lru_cache(maxsize=1 << 14)
def _without_numbers(text: str) -> str:
    return _FREE_NUMBER.sub("#", text).lower()


def recurring_numbers(episodes: Sequence[Trajectory], phrasing: Phrasing) -> dict[str, frozenset[int]]:
    """Of wordings with numbers, the places of those that have few fillings in a log, each of them often.

    "1 failed, 183 passed": how many fail recurs, how many pass may be another number in each task.
    """
    fillings: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for episode in episodes:
        for step, answer in zip(episode.steps, episode.next_observations, strict=True):
            phrase = phrasing.parse_in(episode.goal, step.action)
            if numbers := tuple(_FREE_NUMBER.findall(phrase.blanked(answer))):
                fillings[wording(answer, phrase)][numbers] += 1
    places = {worded: _recurring_places(texts) for worded, texts in fillings.items()}
    return {worded: own for worded, own in places.items() if own}


def _recurring_places(fillings: Mapping[tuple[str, ...], int]) -> frozenset[int]:
    """As many places as recur together, those with the fewest numbers first."""
    distinct = [len(set(numbers)) for numbers in zip(*fillings, strict=True)]
    recurring: list[int] = []
    for place in sorted(range(len(distinct)), key=lambda one: distinct[one]):
        together = {tuple(numbers[one] for one in (*recurring, place)) for numbers in fillings}
        if len(together) <= _FILLINGS and sum(fillings.values()) >= _OFTEN * len(together):
            recurring.append(place)
    return frozenset(recurring)


def own_words(episodes: Sequence[Trajectory]) -> frozenset[str]:
    """Words that a single task shows: names, codes, hashes. None where tasks are so few that any word may be one."""
    if len({episode.task_id for episode in episodes}) < _FEWEST_TASKS:
        return frozenset()
    tasks: dict[str, set[str]] = defaultdict(set)
    for episode in episodes:
        for text in {episode.steps[0].observation, *episode.next_observations}:
            for word in set(_WORD.findall(text.lower())):
                tasks[word].add(episode.task_id)
    return frozenset(word for word, those in tasks.items() if len(those) == 1 and not word.isdigit())


def idle_wordings(
    episodes: Sequence[Trajectory], phrasing: Phrasing, unchanged: Sequence[Sequence[bool | None]] = ()
) -> tuple[frozenset[Happening], frozenset[Happening]]:
    """How actions are answered that leave the list of what can be done as it was, and which of these do nothing.

    An action may do something and leave the list ("you clean the cup"). Then no unlike action is answered so, and no
    other answer to its verb changes the list. Of a log without lists `unchanged` says which steps left all as it was.
    """
    seen: Counter[Happening] = Counter()
    kept: Counter[Happening] = Counter()
    for episode, stayed in zip(episodes, unchanged or itertools.repeat(()), strict=False):
        for (step, after), same in itertools.zip_longest(itertools.pairwise(episode.steps), stayed):
            unlisted = step.admissible is None
            if same is not None or not unlisted:
                phrase = phrasing.parse_in(episode.goal, step.action)
                happening = phrase.skeleton, wording(opening(after.observation), phrase)
                seen[happening] += 1
                kept[happening] += bool(same) if unlisted else step.admissible == after.admissible
    frequent = {one for one, times in seen.items() if times >= FEWEST}
    idle = frozenset(one for one in frequent if kept[one] >= SURE * seen[one])
    changing = {_verb(one) for one in frequent - idle}
    answered = Counter(worded for _, worded in frequent)
    return idle, frozenset(one for one in idle if _verb(one) in changing or answered[one[1]] > 1)


def _verb(happening: Happening) -> str:
    return happening[0].partition(" ")[0]


@functools.lru_cache(maxsize=1 << 14)
def first_number(action: str) -> float | None:
    """The first number of an action."""
    match = _NUMBER.search(action)
    return size(match[0].replace(",", "")) if match else None


@functools.lru_cache(maxsize=1 << 14)
def last_number(text: str) -> float | None:
    """The last number of a text."""
    match = _LAST_NUMBERS.search(text[::-1])
    return size(_NUMBER.findall(match[0][::-1])[-1]) if match else None


@functools.lru_cache(maxsize=1 << 14)
def outline(sentence: str, word: str) -> str:
    """A sentence, given by its words between spaces, with a word blanked."""
    return " ".join(["*" if other == word else other for other in sentence.split(" ")])


@functools.lru_cache(maxsize=1 << 14)
def sentences(text: str) -> tuple[str, ...]:
    """The first sentences of a text, each by its words between spaces, with its numbers blanked."""
    first = (_WORD.findall(sentence.lower()) for sentence in _SENTENCE.findall(text)[:_SENTENCES])
    return tuple(" ".join(["#" if word[0].isdigit() else word for word in words]) for words in first)


def _facts_of_sentences(text: str) -> list[Fact]:
    """Of a text in lower case, by how its sentences begin."""
    sentences = (_WORD.findall(sentence) for sentence in _SENTENCE.findall(text)[:_FACTS])
    return [
        (code(*words[:_BEGINNING]), code(" ".join(words[_BEGINNING:])))
        for words in sentences
        if len(words) > _BEGINNING
    ]


@dataclass(frozen=True)
class Language:
    """How texts of one log are taken apart and compared."""

    phrasing: Phrasing
    weights: WordWeights
    observations: TextTable
    actions: TextTable
    numbers: NumberRanges
    moves: Moves = field(default_factory=Moves)
    recurring: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Of wordings, the places that few numbers fill, again and again: they are distinguished by these numbers."""
    idle: frozenset[Happening] = frozenset()
    """What leaves the list of what can be done as it was; below, what does nothing at all."""
    refused: frozenset[Happening] = frozenset()
    deed_words: frozenset[str] = frozenset()
    """The words of its actions that are no names."""
    own_words: frozenset[str] = frozenset()
    """Words that a single task shows."""
    shared_facts: SharedFacts = field(default_factory=SharedFacts, repr=False)
    """Which episodes of the log share hidden facts with others."""
    _facts_of_answers: dict[tuple[str, str, tuple[str, ...]], list[Fact]] = field(default_factory=dict, repr=False)
    _shapes: dict[Listed, int] = field(default_factory=dict, repr=False)
    _list_codes: dict[Listed, int] = field(default_factory=dict, repr=False)
    _rare_words: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, repr=False)
    _fillers: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    shape_sets: list[frozenset[str]] = field(default_factory=list, repr=False)
    _shape_ids: dict[frozenset[str], int] = field(default_factory=dict, repr=False)
    _overlaps: dict[int, Array] = field(default_factory=dict, repr=False)

    def sort(self, answer: str, phrase: Phrase) -> str:
        """The wording of an answer without words that a single task shows, with its numbers where these recur.

        A push that succeeds shows another hash each time; all of them are of one sort.
        """
        recurring = self.recurring.get(wording(answer, phrase))
        if recurring is None:
            return self.number_free(answer, phrase)
        place = itertools.count()
        text = _FREE_NUMBER.sub(lambda number: number[0] if next(place) in recurring else "#", phrase.blanked(answer))
        return exchanged(text, self._blanks(answer)).lower()

    def facts_of_step(self, action: str, answer: str, phrase: Phrase, reward: float) -> list[Fact]:
        """How an action was answered, how each sentence of the answer goes on, and what the action earned."""
        earned = code("earned", blanked_given(action, phrase)), code(round(float(reward), 2) + 0.0)
        return [*self.facts_of_answer(action, answer, phrase), earned]

    def facts_of_answer(self, action: str, answer: str, phrase: Phrase) -> list[Fact]:
        """The same without what it earned."""
        key = action, answer, phrase.given
        facts = self._facts_of_answers.get(key)
        if facts is None:
            if len(self._facts_of_answers) >= _KEPT:
                self._facts_of_answers.clear()
            facts = self._facts_of_answers[key] = [
                (code(blanked_given(action, phrase)), code(self.sort(answer, phrase))),
                *_facts_of_sentences(blanked_given(answer, phrase)),
            ]
        return facts

    def number_free(self, answer: str, phrase: Phrase) -> str:
        """The wording of an answer without words that a single task shows."""
        return _without_numbers(self._blanked(answer, phrase))

    def plain(self, text: str) -> str:
        """The text with words that a single task shows blanked."""
        return exchanged(text, self._blanks(text))

    def _blanked(self, answer: str, phrase: Phrase) -> str:
        """The same of an answer whose names are blanked."""
        return exchanged(phrase.blanked(answer), self._blanks(answer))

    def _blanks(self, text: str) -> dict[str, str]:
        return dict.fromkeys(self.own_words & vocabulary(text), "~") if self.own_words else {}

    def rare(self, word: str) -> bool:
        """Whether few enough texts have the word for it to relate something to something."""
        return self.weights.rarity(word) > _COMMON

    def rare_words(self, text: str) -> tuple[tuple[str, str], ...]:
        """The rare words of a text, each with the words of a sentence that has it, between spaces."""
        rare_words = self._rare_words.get(text)
        if rare_words is None:
            sentences = [_WORD.findall(one.lower()) for one in _SENTENCE.findall(text)[:_SENTENCES]]
            short = [(words, " ".join(words)) for words in sentences if len(words) <= _LONGEST]
            rare_words = self._rare_words[text] = tuple(
                (word, sentence) for words, sentence in short for word in dict.fromkeys(words) if self.rare(word)
            )
        return rare_words

    def recurring_words(self, text: str) -> list[str]:
        """The words of a text that are rare, those first that most texts have: from these something can be learned."""
        rare = ((self.weights.rarity(word), word) for word in plain_words(text) if word.isalnum() and self.rare(word))
        return [word for _, word in sorted(rare)]

    def fillers(self, action: str) -> dict[str, str]:
        """The wordings of an action with one rare word blanked, and that word; none of a long text."""
        fillers = self._fillers.get(action)
        if fillers is None:
            words = _WORD.findall(action.lower())
            rare = (word for word in words if self.rare(word)) if len(words) <= _LONGEST else ()
            fillers = self._fillers[action] = {outline(" ".join(words), word): word for word in rare}
        return fillers

    def list_code(self, listed: Listed) -> int:
        """A number for a list of actions."""
        at = self._list_codes.get(listed)
        if at is None:
            at = self._list_codes[listed] = code(listed)
        return at

    def shape(self, listed: Listed) -> int:
        """A number for the skeletons that a list of actions has."""
        at = self._shapes.get(listed)
        if at is None:
            skeletons = frozenset(self.phrasing.parse(action).skeleton for action in listed or ())
            at = self._shape_ids.setdefault(skeletons, len(self.shape_sets))
            if at == len(self.shape_sets):
                self.shape_sets.append(skeletons)
            self._shapes[listed] = at
        return at

    def shape_overlaps(self, at: int) -> Array:
        """Of shape `at` and each other, shared skeletons as a share of all; 1 where both are empty."""
        overlaps = self._overlaps.get(at)
        if overlaps is None or len(overlaps) < len(self.shape_sets):
            mine = self.shape_sets[at]
            overlaps = np.array(
                [len(mine & s) / len(mine | s) if mine or s else 1.0 for s in self.shape_sets], np.float32
            )
            self._overlaps[at] = overlaps
        return overlaps
