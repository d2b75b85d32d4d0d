"""What everything done and heard before says of an answer: of its words, its number and what it earns.

Similar steps say how an answer may be worded ("your mark is 63"). Which of such answers comes may follow from the whole
of an episode: how often each thing was done, the last number that each kind of action named, what was read last in each
place, the words that were heard after each kind of action. Gaussian processes learn that: of the words of all answers
to a kind of action, those combinations that can be predicted; of each wording, how large its numbers and its reward
are. They are fitted on each half of the log; what they say of the other half decides whether they are kept, and a
logged step is judged by those that have not seen it.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.language import first_number, free_numbers, wording
from worldline.kernel.numerals import numbered, size
from worldline.kernel.phrases import Phrase
from worldline.kernel.processes import Array, Inputs, NameTable, Process, SparseInputs, predictable_directions
from worldline.kernel.step_table import FOLDS, StepTable, fold_of
from worldline.kernel.words import PLAIN, plain_words, vocabulary

TARGETS = "words", "number", "reward"
Key = tuple[str, str]
"""A target, and the skeleton of the action or, of numbers and rewards, the wording of the answer."""
FEWEST, MOST, KEYS = 40, 400, 24
"""Steps that a key must have, how many of them are looked at, and keys of a log: those with the most steps."""
_FEWEST_OF_FOLD = FEWEST // (2 * FOLDS)
_WORDS, _RAREST = 120, 0.02
"""Words of answers that are predicted, and the share of the answers that must have one, and lack it."""
_OUTPUTS = 3
"""Combinations of words, and numbers of a wording, that are predicted."""
_PAST = 32
"""Latest steps whose answers are read, and of those that share a name with a step."""
_GAIN = 0.02
"""Nats per step that expectations must be worth, on steps that they have not seen."""


@functools.lru_cache(maxsize=1 << 12)
def _named(how: str, text: str) -> dict[str, float]:
    """Each word of a text, by how it came to be read."""
    return {f"{how} {word}": 1.0 for word in plain_words(text)}


@functools.lru_cache(maxsize=1 << 13)
def _readings(text: str) -> dict[str, float]:
    """The numbers of a text, by the words around them."""
    return {f"read {' '.join(around)}": size(number) for around, number in numbered(text).unique.items()}


def circumstances(state: EpisodeState, step: StepDescription) -> dict[str, float]:
    """All that was done, heard and read in an episode before a step, as numbers."""
    out = {"step": float(state.step), "earned": float(sum(state.rewards)), f"event {state.event(step.action)}": 1.0}
    for name, counts in (
        ("happened", state.happened),
        ("before", state.event_counts),
        ("role", state.role_counts),
        ("did", state.action_counts),
    ):
        out |= {f"{name} {key}": float(times) for key, times in counts.items()}
    out |= dict.fromkeys(state.unseen(step.phrase), 1.0)
    out |= {f"stands {stands}": 1.0 for stands in state.standing(step.action)}
    heard: Counter[str] = Counter()
    informed: set[tuple[str, str]] = set()
    for at in range(max(0, state.step - _PAST), state.step):
        phrase, answer = state.descriptions[at].phrase, state.answers[at]
        heard.update(_named("heard", answer).keys())
        heard.update(_named(f"heard {phrase.skeleton}", answer).keys())
        earlier = (one for one in state.related(phrase)[-_PAST:] if one < at)
        informed |= {(phrase.skeleton, state.answers[one]) for one in earlier}
    for skeleton, answer in informed:
        out |= _named(f"did {skeleton} having heard of it", answer)
    for at in state.related(step.phrase)[-_PAST:]:
        heard.update(_named("heard of it", state.answers[at]).keys())
    out |= heard
    for action in (*state.actions, step.action):
        number = first_number(action)
        if number is not None:
            skeleton = state.language.phrasing.parse(action).skeleton
            out[f"last {skeleton}"] = number
            out[f"sum {skeleton}"] = out.get(f"sum {skeleton}", 0.0) + number
    for text in (state.goal, state.first_observation, *state.answers):
        out |= _readings(text)
    out |= _named("shown", state.observation)
    out |= _named("first", state.first_observation)
    return out | {f"goal {word}": 1.0 for word in state.rare_goal_words}


@functools.lru_cache(maxsize=1 << 12)
def given(goal: str, first_observation: str) -> frozenset[str]:
    """The words that an episode has had from its beginning."""
    return plain_words(goal) | plain_words(first_observation)


@dataclass(frozen=True)
class Answer:
    """What is to be predicted of a step, or how likely it is of a candidate."""

    text: str
    phrase: Phrase
    reward: float
    given: frozenset[str]
    """Words that the episode has had from its beginning."""

    @property
    def words(self) -> frozenset[str]:
        """Without the names of the action, and without what needs no prediction."""
        return _words_besides_names(self.text, self.phrase) - self.given


@dataclass(frozen=True)
class _Answered:
    """A logged step: its circumstances, and how it was answered."""

    episode: int
    example: SparseInputs
    answer: Answer


@dataclass(frozen=True)
class Expectation:
    """A process of some outputs of an answer: its numbers, its reward, or combinations of its words."""

    outputs: "Outputs"
    process: Process

    @classmethod
    def of(cls, target: str, names: NameTable, steps: Sequence[_Answered]) -> "Expectation | None":
        """None where nothing varies that could be predicted."""
        if len(steps) < _FEWEST_OF_FOLD:
            return None
        named, table = names.table([one.example for one in steps])
        answers = [one.answer for one in steps]
        outputs = Outputs(target, _directions(table, answers) if target == "words" else {})
        values = outputs.of(answers)
        varied = [at for at, column in enumerate(values.T) if len(np.unique(column.round(9))) > 1][:_OUTPUTS]
        if not varied:
            return None
        return cls(replace(outputs, columns=tuple(varied)), Process.of(named, table, values[:, varied]))

    def log_ratios(self, here: Inputs, answers: Sequence[Answer]) -> Array:
        """How much likelier each answer is here than anywhere, in nats."""
        return self.process.log_ratios(here, self.outputs.of(answers)[:, list(self.outputs.columns)])


@dataclass(frozen=True, eq=False)
class Outputs:
    """What is predicted of an answer, as numbers."""

    target: str
    words: dict[str, Array]
    """Of each word, its part in each combination; empty for the other targets."""
    columns: tuple[int, ...] = ()
    """Which of the outputs vary."""

    def of(self, answers: Sequence[Answer]) -> Array:
        """(answers, outputs)."""
        if self.target == "reward":
            return np.array([[one.reward] for one in answers])
        if self.target == "number":
            return np.array([free_numbers(one.text, one.phrase) for one in answers])
        words = (_combined_words(self, one.text, one.phrase) - one.given for one in answers)
        return np.array([_combined(self, each) for each in words])


@functools.lru_cache(maxsize=1 << 14)
def _words_besides_names(text: str, phrase: Phrase) -> frozenset[str]:
    """The plain words of a text, with a mark for those of the action's names, and for each that its goal gives.

    A long text is not blanked for it: its words are looked up.
    """
    there = vocabulary(text[:PLAIN])
    names = [vocabulary(name) for name in phrase.lowered]
    named = frozenset[str]().union(*(name for name in names if name <= there))
    marks = [f"<g{place}>" for place, word in enumerate(phrase.given) if word.lower() in there]
    given = there.intersection(word.lower() for word in phrase.given)
    return (plain_words(text) - named - given).union(["<>"] if named else [], marks)


@functools.lru_cache(maxsize=1 << 14)
def _combined_words(outputs: Outputs, text: str, phrase: Phrase) -> frozenset[str]:
    """The words of a text that have a part in the combinations, without those names."""
    return _words_besides_names(text, phrase).intersection(outputs.words)


@functools.lru_cache(maxsize=1 << 14)
def _combined(outputs: Outputs, words: frozenset[str]) -> Array:
    """What these words add up to in each combination."""
    nothing = np.zeros(len(next(iter(outputs.words.values()))) if outputs.words else 0)
    out: Array = np.sum([outputs.words[word] for word in sorted(words)] or [nothing], 0)
    return out


def _directions(table: Array, answers: Sequence[Answer]) -> dict[str, Array]:
    """The combinations of words that can be predicted from inputs (answers, F)."""
    words = [one.words for one in answers]
    counts = Counter(word for each in words for word in each)
    least = _RAREST * len(answers)
    frequent = sorted(word for word, times in counts.items() if least <= times <= len(answers) - least)
    frequent = sorted(frequent, key=lambda word: -counts[word])[:_WORDS]
    if not frequent:
        return {}
    there = np.array([[word in each for word in frequent] for each in words], float)
    directions = predictable_directions(table, there - there.mean(0), _OUTPUTS)
    return dict(zip(frequent, directions, strict=True)) if directions.shape[1] else {}


class Expectations:
    """What the words, numbers and rewards of a log's answers follow from.

    A logged step is judged by the other half of the log, in which its policy may have other episodes.
    """

    def __init__(self, log: StepTable) -> None:
        self._by_key: dict[Key, list[Expectation]] = {}
        """Of each key, the expectation that has not seen each fold, and last the one that has seen all."""
        rows: dict[Key, list[int]] = defaultdict(list)
        for at, row in enumerate(log.rows):
            for key in _keys(log.phrases[at], row.answer, log.language.recurring):
                rows[key].append(at)
        varied = [key for key, own in rows.items() if len(own) >= FEWEST and _varied(log, key[0], own)]
        varied = sorted(varied, key=lambda key: (-len(rows[key]), key))[:KEYS]
        rng = np.random.default_rng(0)
        chosen = {key: frozenset(rng.permutation(rows[key])[:MOST].tolist()) for key in varied}
        names, steps = NameTable(), dict[int, _Answered]()
        wanted = frozenset().union(*chosen.values())
        for number in range(len(log.episodes)) if wanted else ():
            first = int(log.first_row[number])
            for state, step, row in log.replay(number):
                if first + row.step in wanted:
                    answer = Answer(row.answer, step.phrase, row.reward, given(state.goal, state.first_observation))
                    example = names.sparse(circumstances(state, step))
                    steps[first + row.step] = _Answered(number, example, answer)
        for key, own in chosen.items():
            expectations = _fitted(key[0], names, [steps[at] for at in sorted(own)])
            if expectations is not None:
                self._by_key[key] = expectations

    def log_ratios(
        self, state: EpisodeState, step: StepDescription, texts: Sequence[str], rewards: Sequence[float], own: int
    ) -> npt.NDArray[np.float32]:
        """(candidates, len(TARGETS)): how much likelier each is here than anywhere, in nats; 0: nothing is expected.

        Numbers and rewards are compared within a wording, whose own likelihood stays. `own` is the logged episode that
        the step belongs to, -1: none.
        """
        out = np.zeros((len(texts), len(TARGETS)), np.float32)
        if not self._by_key:
            return out
        number: dict[tuple[str, float], int] = {}
        of = [number.setdefault(one, len(number)) for one in zip(texts, rewards, strict=True)]
        places: dict[Key, list[int]] = defaultdict(list)
        of_wordings = any(target != "words" for target, _ in self._by_key)
        for (text, _), at in number.items():
            for key in _keys(step.phrase, text, {}) if of_wordings else [_key_of_words(step.phrase)]:
                if key in self._by_key:
                    places[key].append(at)
        if not places:
            return out
        here, words = circumstances(state, step), given(state.goal, state.first_observation)
        answers = [Answer(text, step.phrase, reward, words) for text, reward in number]
        ratios, times = np.zeros((len(answers), len(TARGETS)), np.float32), np.bincount(of)
        for key, members in places.items():
            judge = self._by_key[key][fold_of(own) if own >= 0 else -1]
            likelier = judge.log_ratios(here, [answers[at] for at in members])
            if key[0] != "words":  # which number or reward a wording has says nothing of how likely the wording is
                likelier -= np.log(np.average(np.exp(likelier), weights=times[members]))
            ratios[members, TARGETS.index(key[0])] = likelier
        return ratios[of]


def _keys(phrase: Phrase, answer: str, recurring: Mapping[str, frozenset[int]]) -> Iterable[Key]:
    """What may be expected of an answer."""
    worded = wording(answer, phrase)
    yield _key_of_words(phrase)
    yield "reward", worded
    numbers = free_numbers(answer, phrase)
    if len(numbers) > len(recurring.get(worded, ())):
        yield "number", f"{len(numbers)} {worded}"


def _key_of_words(phrase: Phrase) -> Key:
    return "words", phrase.skeleton


def _varied(log: StepTable, target: str, rows: Sequence[int]) -> bool:
    """Whether there is something to predict."""
    return len({log.rows[at].reward if target == "reward" else log.rows[at].answer for at in rows}) > 1


def _fitted(target: str, names: NameTable, steps: Sequence[_Answered]) -> list[Expectation] | None:
    """Those that have not seen each fold, and the one that has seen all; None where they are worth nothing unseen."""
    expectations: list[Expectation] = []
    gains: list[float] = []
    for fold in range(FOLDS):
        expectation = Expectation.of(target, names, [one for one in steps if fold_of(one.episode) != fold])
        if expectation is None:
            return None
        expectations.append(expectation)
        unseen = (one for one in steps if fold_of(one.episode) == fold)
        gains += [float(expectation.log_ratios(names.inputs(one.example), [one.answer])[0]) for one in unseen]
    whole = Expectation.of(target, names, steps)
    return [*expectations, whole] if whole is not None and np.mean(gains).round(6) >= _GAIN else None
