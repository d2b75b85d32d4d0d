"""What has happened in an episode, and how one more step of it is described, so that it can be compared with others.

A description knows nothing of any world's words. It says which observation and action it is, what came before (exactly,
and as a fading memory of words), which goal words the action has, whether it was listed, and how its words and numbers
relate to what was done and seen earlier in the episode.
"""

import functools
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from worldline.kernel.edits import Views
from worldline.kernel.numerals import NumberRanges
from worldline.kernel.paths import Moves, Path
from worldline.kernel.phrases import Phrase, Phrasing, blanked
from worldline.kernel.vectors import Array, TextTable, WordWeights, unit
from worldline.kernel.words import stable_hash, vocabulary
from worldline.types import Trajectory

FADING = 0.6
"""What is left of a word's weight in memory after one more step."""
COLUMNS = (
    "task",
    "goal",
    "observation",
    "action",
    "history",
    "last_two",
    "step",
    "goal_words",
    "listed",
    "list",
    "shape",
    "path",
    "deeds",
)
Bid = tuple[float, str]
"""The first number of an action, and the wording of the answer to it."""
Codes = npt.NDArray[np.int64]
_WORD, _NUMBER = re.compile(r"\w+"), re.compile(r"\d+(?:\.\d+)?")
_FREE_NUMBER = re.compile(r"(?<!<)\b\d+(?:\.\d+)?")
"""A number that is not the place of a blanked name."""
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_COMMON = 0.5
"""Words that this share of all texts has relate nothing to anything."""
_SENTENCES = 12
_FILLINGS, _OFTEN = 16, 8
"""Fillings of a wording that are told apart at most, and how often each of them must be in the log on average."""
_OUTLINES, _FACTS = 6, 24
"""Sentences that are remembered of a word, and pairs of a deed and a sentence."""


def code(*parts: object) -> int:
    """A number for these parts, the same in every process."""
    return stable_hash(repr(parts)) >> 1


def wording(answer: str, phrase: Phrase) -> str:
    """An answer without its numbers and without the names of the action it answers."""
    return _FREE_NUMBER.sub("#", blanked(answer, phrase.names)).lower()


def recurring_wordings(episodes: Sequence[Trajectory], phrasing: Phrasing) -> frozenset[str]:
    """Wordings with numbers that have few fillings in a log, each of them often."""
    fillings: dict[str, Counter[str]] = defaultdict(Counter)
    for episode in episodes:
        for step, answer in zip(episode.steps, episode.next_observations, strict=True):
            phrase = phrasing.parse(step.action)
            fillings[wording(answer, phrase)][blanked(answer, phrase.names).lower()] += 1
    return frozenset(
        worded
        for worded, texts in fillings.items()
        if "#" in worded and len(texts) <= _FILLINGS and texts.total() >= _OFTEN * len(texts)
    )


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


def first_number(action: str) -> float | None:
    """The first number of an action."""
    match = _NUMBER.search(action)
    return float(match[0][:9]) if match else None


@functools.lru_cache(maxsize=1 << 14)
def last_number(text: str) -> float | None:
    """The last number of a text."""
    numbers = _NUMBER.findall(text)
    return float(numbers[-1][:9]) if numbers else None


def _distance(gap: float) -> int:
    """Small gaps as they are, large ones by their size."""
    return int(gap) if gap < 4 else 3 + int(np.log2(gap))


@dataclass(frozen=True)
class Language:
    """How texts of one log are taken apart and compared."""

    phrasing: Phrasing
    weights: WordWeights
    observations: TextTable
    actions: TextTable
    numbers: NumberRanges
    moves: Moves = field(default_factory=Moves)
    recurring: frozenset[str] = frozenset()
    """Wordings that few numbers fill, again and again: these are told apart by their numbers."""
    _shapes: dict[tuple[str, ...] | None, int] = field(default_factory=dict, repr=False)
    shape_sets: list[frozenset[str]] = field(default_factory=list, repr=False)
    _shape_ids: dict[frozenset[str], int] = field(default_factory=dict, repr=False)
    _overlaps: dict[int, Array] = field(default_factory=dict, repr=False)

    def sort(self, answer: str, phrase: Phrase) -> str:
        """The wording of an answer, with its numbers where these recur."""
        worded = wording(answer, phrase)
        return blanked(answer, phrase.names).lower() if worded in self.recurring else worded

    def shape(self, listed: tuple[str, ...] | None) -> int:
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


@dataclass(frozen=True, slots=True)
class StepDescription:
    """One step, described. `codes` has an entry for each of COLUMNS."""

    action: str
    phrase: Phrase
    codes: Codes
    relations: frozenset[int]
    memory: Array
    """Fading words of observations and actions; below, words of all actions so far. Unit vectors (WIDTH,)."""
    deeds: Array
    proportion: float
    """The action's number as a share of the last one that was shown; nan where there is none."""


class EpisodeState:
    """An episode under way."""

    def __init__(
        self, language: Language, task: str, goal: str, observation: str, listed: tuple[str, ...] | None
    ) -> None:
        self.language, self.task, self.goal = language, task, goal
        self.observation, self.listed = observation, listed
        self.first_observation, self.first_listed = observation, listed
        self.views = Views(observation)
        self.words = vocabulary(observation)
        """All words that the episode has shown."""
        self.path: Path = ()
        self.actions: list[str] = []
        self.answers: list[str] = []
        self.rewards: list[float] = []
        self.descriptions: list[StepDescription] = []
        self.goal_words = frozenset(_WORD.findall(goal.lower()))
        self.likely_listed: dict[str, float] = {}
        """Log-odds of what was nearly listed: the list is a guess."""
        self.last_listed: dict[str, int] = dict.fromkeys(listed or (), 0)
        self.last_use: dict[str, tuple[str, int]] = {}
        """Of each name, the verb it was last used with, and when."""
        self._history, self._previous = code(observation), 0
        self._memory = language.observations.vector(language.observations.id(observation)).copy()
        self._deeds = np.zeros_like(self._memory)
        self._sentences: dict[str, dict[str, None]] = {}
        """Of each rare word, the sentences with it, the word blanked."""
        self._fillers: dict[str, str] = {}
        """Of each wording of an action with one rare word blanked, that word, as it was last used."""
        self.bids: list[Bid] = []
        self.heard: dict[str, int] = {}
        """How often the world has answered in each wording."""
        self.first_number = self.last_number = last_number(observation)
        """The last number that the world named; below, that an action did."""
        self.last_bid: float | None = None
        self._remember(observation)

    @property
    def step(self) -> int:
        return len(self.actions)

    def events(self) -> list[str]:
        """The actions so far by skeleton and by which names the goal has."""
        return [self.event(action) for action in self.actions]

    def event(self, action: str) -> str:
        phrase = self.language.phrasing.parse(action)
        return f"{phrase.skeleton}|" + "".join(str(int(self._in_goal(name))) for name in phrase.names)

    def _in_goal(self, name: str) -> bool:
        return any(word in self.goal_words for word in _WORD.findall(name.lower()))

    def offered(self, action: str) -> bool:
        """Whether the action is listed, or was nearly: the list of an imagined step is a guess."""
        return self.listed is None or action in self.listed or self.likely_listed.get(action, -9.0) > -2.5

    def describe(self, action: str) -> StepDescription:
        language = self.language
        phrase = language.phrasing.parse(action)
        words = _WORD.findall(action.lower())
        codes = np.array(
            [
                code(self.task),
                code(self.goal),
                language.observations.id(self.observation),
                language.actions.id(action),
                code(self._history, action),
                code(self._previous, self.observation, action),
                self.step,
                code(len(words), *(word in self.goal_words for word in words)),
                self.offered(action),
                code(self.listed),
                language.shape(self.listed),
                code(self.task, self.path, action),
                code(self.task, tuple(sorted(self.path)), action),
            ],
            dtype=np.int64,
        )
        relations = frozenset(code(relation) for relation in self.relations(phrase, words, action))
        number, shown = first_number(action), self.last_number
        proportion = number / shown if number is not None and shown else float("nan")
        return StepDescription(action, phrase, codes, relations, unit(self._memory), unit(self._deeds), proportion)

    def relations(self, phrase: Phrase, words: list[str], action: str) -> Iterable[str]:
        """How the action's names, words and numbers stand to what was done and seen before."""
        parse = self.language.phrasing.parse
        own = {name.lower(): place for place, name in enumerate(phrase.names)}
        for earlier in dict.fromkeys(self.actions):
            other = parse(earlier)
            if any(name.lower() in own for name in other.names):
                places = ",".join(str(own.get(name.lower(), "-")) for name in other.names)
                yield f"did {other.skeleton} {places}"
        for word in dict.fromkeys(words):
            for sentence in self._sentences.get(word, ()):
                yield f"read {words.index(word)} {sentence}"
        number = first_number(action)
        if number is not None:
            yield from self._comparisons(number)

    def _comparisons(self, number: float) -> Iterable[str]:
        """The action's number against those of earlier actions, by what was answered, and against the observation's."""
        yield from neighbours(number, self.bids)
        shown = self.language.observations.numbers(self.language.observations.id(self.observation))
        for place, value in enumerate(shown.tolist()):
            yield f"shown {place} {(number > value) - (number < value)}"
            for parts in (2, 4, 8) if value > 0 else ():
                yield f"ratio {place} {parts} {min(int(number / value * parts), 3 * parts)}"

    def facts(self) -> list[str]:
        """What was done with the things that were read about: actions and sentences that name the same word."""
        facts = [
            f"{deed} ~ {sentence}" for deed, word in self._fillers.items() for sentence in self._sentences.get(word, ())
        ]
        return facts[-_FACTS:]

    def advance(self, description: StepDescription, answer: str, reward: float, listed: tuple[str, ...] | None) -> None:
        """One more step: the world answers, pays, and lists what can be done next."""
        language, action = self.language, description.action
        self._previous = code(self.observation, action)
        self.path = language.moves.after(self.path, action, answer)
        self._history = code(self._history, action, answer)
        for name in description.phrase.names:
            self.last_use[name.lower()] = (description.phrase.verb, self.step)
        seen, done = language.observations.id(answer), language.actions.id(action)
        self._memory = FADING * self._memory + language.observations.vector(seen) + language.actions.vector(done)
        self._deeds = self._deeds + language.actions.vector(done)
        number = first_number(action)
        named, bid = last_number(answer), last_number(action)
        self.last_number = self.last_number if named is None else named
        self.last_bid = self.last_bid if bid is None else bid
        worded = wording(answer, description.phrase)
        self.heard = {**self.heard, worded: self.heard.get(worded, 0) + 1}
        if number is not None:
            self.bids = [*self.bids[-8:], (number, wording(answer, description.phrase))]
        self.actions.append(action)
        self.answers.append(answer)
        self.rewards.append(reward)
        self.descriptions.append(description)
        self.observation, self.listed = answer, listed
        for item in listed or ():
            self.last_listed[item] = self.step
        words = _WORD.findall(action.lower())
        for word in words:
            if self.language.weights.rarity(word) > _COMMON:
                self._fillers[" ".join("*" if other == word else other for other in words)] = word
        self.views.add(answer, self.step)
        self.words = self.words | vocabulary(answer)
        self._remember(answer)

    def _remember(self, text: str) -> None:
        """Keep the wording of each sentence with each of its rare words blanked."""
        for sentence in _SENTENCE.findall(text)[:_SENTENCES]:
            words = _WORD.findall(sentence.lower())
            if len(words) > 40:
                continue
            for word in dict.fromkeys(words):
                if self.language.weights.rarity(word) > _COMMON:
                    seen = self._sentences.get(word, {})
                    outline = " ".join("*" if other == word else other for other in words)
                    if outline not in seen:  # not in place: a copy of the state shares the inner dict
                        self._sentences[word] = {**dict(itertools.islice(seen.items(), _OUTLINES - 1)), outline: None}

    def copy(self) -> "EpisodeState":
        twin = EpisodeState.__new__(EpisodeState)
        twin.__dict__ = {
            name: value.copy() if isinstance(value, list | dict | Views) else value
            for name, value in self.__dict__.items()
        }
        return twin
