"""What has happened in an episode, and how one more step of it is described, so that it can be compared with others.

A description knows nothing of any world's words. It says which observation and action it is, what came before (exactly,
and as a fading memory of words), which goal words the action has, whether it was listed, and how its words and numbers
relate to what was done and seen earlier in the episode.
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.kernel.bids import EpisodeBids, neighbours
from worldline.kernel.edits import Views
from worldline.kernel.language import Language, code, first_number, last_number, outline, wording
from worldline.kernel.numerals import first_readings, readings
from worldline.kernel.paths import START, opening
from worldline.kernel.phrases import Phrase
from worldline.kernel.shared_facts import Fact, Record
from worldline.kernel.vectors import Array, unit
from worldline.kernel.words import vocabulary

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
Codes = npt.NDArray[np.int64]
_WORD = re.compile(r"\w+")
_SENTENCES, _DEEDS_READ = 6, 24
"""Sentences that are remembered of a word, and pairs of a deed and a sentence."""
_LONGEST = 40
"""Words of an action that relate it to what was shown: a whole file may be written by one."""
_PLACES, _STANDING = 3, 16
"""Places of a word in what is shown that are looked at, and how much is read of what is around an action's words."""


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


@functools.lru_cache(maxsize=1 << 14)
def _event(phrase: Phrase, goal_words: frozenset[str]) -> str:
    """The skeleton, and of each name whether the goal has a word of it."""
    in_goal = (any(word in goal_words for word in _WORD.findall(name)) for name in phrase.lowered)
    return f"{phrase.skeleton}|" + "".join(str(int(one)) for one in in_goal)


@functools.lru_cache(maxsize=1 << 14)
def _roles(phrase: Phrase, goal: str) -> tuple[str, ...]:
    """The skeleton with the place of each name that the goal has, and the word before that name in the goal."""
    words = _WORD.findall(goal.lower())
    before = dict(reversed([*zip(words, ["", *words], strict=False)]))  # where it occurs first
    named = ((place, word) for place, name in enumerate(phrase.lowered) for word in _WORD.findall(name))
    return tuple({f"{phrase.skeleton}/{place} {before[word]}": None for place, word in named if word in before})


@functools.lru_cache(maxsize=1 << 9)
def _places(text: str) -> tuple[list[str], dict[str, list[int]]]:
    """The words of a text, and of each of them the first places where it stands."""
    words, places = _WORD.findall(text.lower()), dict[str, list[int]]()
    for at, word in enumerate(words):
        if len(own := places.setdefault(word, [])) < _PLACES:
            own.append(at)
    return words, places


def _around(words: list[str], at: int) -> tuple[str, str]:
    """The two words before a place, and those on both sides of it.

    Numbers before it are blanked: there they count ("2 cups"). What stands after a word may be its number ("B, 95 %").
    """
    second, first = ("#" if word.isdigit() else word for word in ["", "", *words][at : at + 2])
    return f"{second} {first} *", f"{first} * {words[at + 1] if at + 1 < len(words) else ''}"


@functools.lru_cache(maxsize=1 << 16)
def _relation_code(relation: str) -> int:
    return code(relation)


class EpisodeState:
    """An episode under way. What it indexes of its past grows with each step, so that no step reads all of it again.

    A copy shares what is inside the dictionaries: that is replaced, never changed.
    """

    def __init__(
        self, language: Language, task: str, goal: str, observation: str, listed: tuple[str, ...] | None
    ) -> None:
        self.language, self.task, self.goal = language, task, goal
        self.observation, self.listed = observation, listed
        self.first_observation, self.first_listed = observation, listed
        self.views = Views(observation)
        self.words = vocabulary(observation)
        """All words that the episode has shown."""
        self.path = START
        self.actions: list[str] = []
        self.answers: list[str] = []
        self.rewards: list[float] = []
        self.happened: Counter[str] = Counter()
        """How often each event was answered so, less names and numbers."""
        self.descriptions: list[StepDescription] = []
        self.effective: list[bool] = []
        """Of each step, whether it was of some effect."""
        self.action_counts: Counter[str] = Counter()
        self.event_counts: Counter[str] = Counter()
        self.role_counts: Counter[str] = Counter()
        """How often each skeleton was used with a name that the goal has, by the word before that name in the goal."""
        self.steps_of: dict[str, tuple[int, ...]] = {}
        """Of each skeleton, the steps whose action has it; below, of each name."""
        self.steps_with: dict[str, tuple[int, ...]] = {}
        self.shown = {observation}
        """Every text that the world has shown; below, what it has answered to each action."""
        self.answers_to: dict[str, frozenset[str]] = {}
        self.goal_words = frozenset(_WORD.findall(goal.lower()))
        self.rare_goal_words = frozenset(word for word in self.goal_words if language.rare(word))
        self.owed = self.goal_words & language.deed_words
        """Words of the goal that actions have, and none so far that was of some effect."""
        self.likely_listed: dict[str, float] = {}
        """Log-odds of what was nearly listed: the list is a guess."""
        self.last_listed: dict[str, int] = dict.fromkeys(listed or (), 0)
        self.last_use: dict[str, tuple[str, int]] = {}
        """Of each name, the verb it was last used with to some effect, in which place, and when."""
        self.last_done: dict[str, int] = {}
        """Of each skeleton, when an action with it was last of some effect."""
        self._codes = code(task), code(goal)
        shown = language.observations.id(observation)
        self._history, self._previous = code(shown), 0
        self._memory = language.observations.vector(shown).copy()
        self._deeds = np.zeros_like(self._memory)
        self._sentences: dict[str, tuple[str, ...]] = {}
        """Of each rare word, the sentences with it."""
        self._fillers: dict[str, str] = {}
        """Of each wording of an action with one rare word blanked, that word, as it was last used."""
        self.bids = EpisodeBids()
        self.heard: dict[str, int] = {}
        """How often the world has answered in each wording."""
        self.first_number = self.last_number = last_number(observation)
        """The last number that the world named; below, that an action did."""
        self.last_bid: float | None = None
        self.readings = first_readings(goal, observation)
        """The last number read in each place."""
        self.evidence: frozenset[Fact] = frozenset()
        """What has been seen of hidden facts."""
        self._record = language.shared_facts.record()
        self._remember(observation)

    @property
    def step(self) -> int:
        return len(self.actions)

    @property
    def record(self) -> Record:
        """What the evidence says of the log's episodes."""
        if len(self._record.facts) < len(self.evidence):
            self._record = self.language.shared_facts.extended(self._record, self.evidence)
        return self._record

    def event(self, action: str) -> str:
        """The action by its skeleton and by which names the goal has."""
        return _event(self.language.phrasing.parse(action), self.goal_words)

    def happening(self, step: StepDescription, answer: str) -> str:
        """An event and the first sentence of what is answered to it: an action may do something, or nothing."""
        return f"{self.event(step.action)} > {wording(opening(answer), step.phrase)}"

    def related(self, phrase: Phrase) -> list[int]:
        """The steps so far whose actions share a name with this one, in order."""
        return sorted({at for name in phrase.lowered for at in self.steps_with.get(name, ())})

    def done_with(self, phrase: Phrase) -> list[str]:
        """What was done to some effect with names of this action, as `_deeds_at` has it."""
        return list(self._deeds_at(phrase, [at for at in self.related(phrase) if self.effective[at]]))

    def _deeds_at(self, phrase: Phrase, steps: Iterable[int]) -> Iterable[str]:
        """What was done at these steps, each deed once, with the place in `phrase` of each of its names."""
        own = {name: str(place) for place, name in enumerate(phrase.lowered)}
        deeds = dict.fromkeys(self.descriptions[at].phrase for at in steps)
        return dict.fromkeys(
            f"{deed.skeleton} {','.join(own.get(name, '-') for name in deed.lowered)}" for deed in deeds
        )

    def offered(self, action: str) -> bool:
        """Whether the action is listed, or was nearly: the list of an imagined step is a guess."""
        return self.listed is None or action in self.listed or self.likely_listed.get(action, -9.0) > -2.5

    def describe(self, action: str) -> StepDescription:
        language = self.language
        phrase = language.phrasing.parse_in(self.goal, action)
        words = _WORD.findall(action.lower())
        shown = language.observations.id(self.observation)
        codes = np.array(
            [
                *self._codes,
                shown,
                language.actions.id(action),
                code(self._history, action),
                code(self._previous, shown, action),
                self.step,
                code(len(words), *(word in self.goal_words for word in words)),
                self.offered(action),
                language.list_code(self.listed),
                language.shape(self.listed),
                code(self.task, self.path.ordered, action),
                code(self.task, self.path.unordered, action),
            ],
            dtype=np.int64,
        )
        relations = frozenset([_relation_code(relation) for relation in self.relations(phrase, words, action)])
        number, last = first_number(action), self.last_number
        proportion = number / last if number is not None and last else float("nan")
        return StepDescription(action, phrase, codes, relations, unit(self._memory), unit(self._deeds), proportion)

    def relations(self, phrase: Phrase, words: list[str], action: str) -> Iterable[str]:
        """How the action's names, words and numbers stand to what was done and seen before."""
        yield from self.unseen(phrase)
        for deed in self._deeds_at(phrase, self.related(phrase)):
            yield f"did {deed}"
        for word in dict.fromkeys(words[:_LONGEST]):
            for sentence in self._sentences.get(word, ()):
                yield f"read {words.index(word)} {outline(sentence, word)}"
        number = self.bids.about(phrase, action)
        if number is not None:
            yield from neighbours(number, self.bids.like(phrase, action))
            yield from self._comparisons(number) if first_number(action) is not None else ()

    def unseen(self, phrase: Phrase) -> Iterable[str]:
        """The places of names with a word that neither the goal nor anything shown has: who uses them is guessing."""
        for place, name in enumerate(phrase.lowered):
            if any(word not in self.words and word not in self.goal_words for word in _WORD.findall(name)):
                yield f"unseen {place}"

    def _comparisons(self, number: float) -> Iterable[str]:
        """The action's number against the observation's."""
        shown = self.language.observations.numbers(self.language.observations.id(self.observation))
        for place, value in enumerate(shown.tolist()):
            yield f"shown {place} {(number > value) - (number < value)}"
            for parts in (2, 4, 8) if value > 0 else ():
                yield f"ratio {place} {parts} {min(int(number / value * parts), 3 * parts)}"

    def standing(self, action: str) -> list[str]:
        """Where the action's words stand in what is shown: the answer that a hint named, the first of a list."""
        words, places = _places(self.observation)
        of_words = [
            [f"{number} {text}" for at in places.get(word, ()) for text in _around(words, at)]
            for number, word in enumerate(dict.fromkeys(_WORD.findall(action.lower())))
        ]
        in_turn = (text for texts in itertools.zip_longest(*of_words) for text in texts if text is not None)
        return list(itertools.islice(dict.fromkeys(in_turn), _STANDING))

    def deeds_and_sentences(self) -> list[str]:
        """What was done with the things that were read about: actions and sentences that name the same word."""
        latest = (
            f"{deed} ~ {outline(sentence, word)}"
            for deed, word in reversed(self._fillers.items())
            for sentence in reversed(self._sentences.get(word, ()))
        )
        return list(itertools.islice(latest, _DEEDS_READ))[::-1]

    def advance(self, description: StepDescription, answer: str, reward: float, listed: tuple[str, ...] | None) -> None:
        """One more step: the world answers, pays, and lists what can be done next."""
        language, action, phrase, at = self.language, description.action, description.phrase, self.step
        seen, done = language.observations.id(answer), language.actions.id(action)
        self._previous = code(language.observations.id(self.observation), action)
        self.path = language.moves.after(self.path, action, answer)
        self._history = code(self._history, action, seen)
        self._index(description, answer)
        happening = phrase.skeleton, wording(opening(answer), phrase)
        self.effective.append(happening not in language.refused)
        if self.effective[-1]:
            self.owed = self.owed - vocabulary(phrase.skeleton)
        if happening not in language.idle:
            self.last_done[phrase.skeleton] = at
            self.last_use |= {name: (f"{phrase.verb}/{slot}/", at) for slot, name in enumerate(phrase.lowered)}
        self._memory = FADING * self._memory + language.observations.vector(seen) + language.actions.vector(done)
        self._deeds = self._deeds + language.actions.vector(done)
        named, bid = last_number(answer), last_number(action)
        self.last_number = self.last_number if named is None else named
        self.last_bid = self.last_bid if bid is None else bid
        self.readings |= readings(answer)
        worded = wording(answer, phrase)
        self.heard = {**self.heard, worded: self.heard.get(worded, 0) + 1}
        if self.bids.about(phrase, action) is not None:
            self.bids = self.bids.after(phrase, action, language.sort(answer, phrase))
        self.evidence = self.evidence.union(language.facts_of_step(action, answer, phrase, reward))
        self.actions.append(action)
        self.answers.append(answer)
        self.rewards.append(reward)
        self.descriptions.append(description)
        self.observation, self.listed = answer, listed
        for item in listed or ():
            self.last_listed[item] = self.step
        self._fillers |= language.fillers(action)
        self.views.add(answer, self.step)
        self.words = self.words | vocabulary(answer)
        self._remember(answer)

    def _index(self, description: StepDescription, answer: str) -> None:
        """Index the step by its action, its event, its skeleton, its names and its answer."""
        action, phrase, at = description.action, description.phrase, self.step
        self.action_counts[action] += 1
        self.event_counts[self.event(action)] += 1
        self.role_counts.update(_roles(phrase, self.goal))
        self.happened[self.happening(description, answer)] += 1
        self.steps_of[phrase.skeleton] = (*self.steps_of.get(phrase.skeleton, ()), at)
        for name in set(phrase.lowered):
            self.steps_with[name] = (*self.steps_with.get(name, ()), at)
        self.shown.add(answer)
        self.answers_to[action] = self.answers_to.get(action, frozenset()) | {answer}

    def _remember(self, text: str) -> None:
        """Keep each sentence for each of its rare words."""
        for word, sentence in self.language.rare_words(text):
            seen = self._sentences.get(word, ())
            if sentence not in seen:  # not in place: a copy of the state shares the inner tuple
                self._sentences[word] = (*seen[: _SENTENCES - 1], sentence)

    def copy(self) -> "EpisodeState":
        twin = EpisodeState.__new__(EpisodeState)
        twin.__dict__ = {
            name: value.copy() if isinstance(value, list | dict | set | Views) else value
            for name, value in self.__dict__.items()
        }
        return twin
