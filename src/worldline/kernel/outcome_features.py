"""What the outcome of a step may depend on, as hashed features: what was done, shown and owed, and what is answered.

The forecast reads those that are there before anything is answered, the outcome model all of them.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.language import last_number, sentences
from worldline.kernel.phrases import Phrase
from worldline.kernel.step_table import LoggedStep
from worldline.kernel.words import at_least, stable_hash

Array = npt.NDArray[np.float64]
BUCKETS, FORECAST_BUCKETS = 1 << 17, 1 << 16
_GOAL_WORDS, _DEEDS, _STRONG = 16, 8, 3
_SENTENCES, _RELATIONS, _PAST = 8, 12, 24
"""Of the observation, of the action, and of the past: how many are read."""
_WORDS, _NAMES = 24, 3
"""Words of the observation, each beside each word of the action's names: what it is that is sorted, and where."""
_FEWEST = 3
"""Episodes that must have a sentence."""


def recurring_sentences(rows: Sequence[LoggedStep], phrases: Sequence[Phrase]) -> frozenset[str]:
    """Sentences that the answers of several episodes have. Of one that is in a single one nothing can be learned."""
    episodes: dict[str, set[int]] = defaultdict(set)
    for row, phrase in zip(rows, phrases, strict=True):
        for sentence in _sentences(row.answer, phrase):
            episodes[sentence].add(row.episode)
    return frozenset(sentence for sentence, those in episodes.items() if len(those) >= _FEWEST)


def _sentences(answer: str, phrase: Phrase) -> tuple[str, ...]:
    return sentences(phrase.blanked(answer))[:_SENTENCES]


def outcome_features(
    state: EpisodeState, step: StepDescription, answer: str, recurring: Collection[str], *, levels: bool = False
) -> npt.NDArray[np.int64]:
    """Buckets 1..BUCKETS-1 of everything an outcome may depend on; what is likely to decide it, `_STRONG` times.

    Of the answer's sentences those that are `recurring`. With `levels`, also of how large the last numbers are: what
    earns more or less may follow them.
    """
    event = state.event(step.action)
    happening, happened = state.happening(step, answer), state.happened
    says = step.phrase.blanked(answer).lower()
    left, owed = _left_of_goal(state, step)
    again = f"{happening} {min(happened[happening], 3)}"
    strong, texts = _before_the_answer(state, step, left, owed)
    strong += [f"happens {happening}", f"happens again {again}", f"owed {happening} {owed}"]
    strong += [f"step {happening} {state.step}"]
    strong += [f"goal happens {again} {word}" for word in left[:_GOAL_WORDS]]
    for sentence in _sentences(answer, step.phrase):
        strong += [f"tells {sentence}", f"tells {event} {sentence}"] if sentence in recurring else []
    texts += [f"says {says[:90]}", f"ends {says[-25:]}", f"says {event} {says[:60]}"]
    if levels:
        texts += _levels(event, last_numbers(state, step.action, answer)[1:])
    return _hashed(strong, texts, BUCKETS)


def forecast_features(state: EpisodeState, step: StepDescription, *, levels: bool = False) -> npt.NDArray[np.int64]:
    """The same before anything is answered, as buckets 1..FORECAST_BUCKETS-1."""
    strong, texts = _before_the_answer(state, step, *_left_of_goal(state, step))
    if levels:
        texts += _levels(state.event(step.action), last_numbers(state, step.action, "")[[1, 3, 4]])
    return _hashed(strong, texts, FORECAST_BUCKETS)


def _hashed(strong: Sequence[str], texts: Sequence[str], buckets: int) -> npt.NDArray[np.int64]:
    of_strong, of_texts = ([1 + stable_hash(text) % (buckets - 1) for text in part] for part in (strong, texts))
    return np.array(_STRONG * of_strong + of_texts, dtype=np.int64)


def _left_of_goal(state: EpisodeState, step: StepDescription) -> tuple[list[str], int]:
    """The words of the goal that the action does not name, and how many of these are owed."""
    left = sorted(state.goal_words - _named(step))
    return left, min(len(state.owed.intersection(left)), 3)


def _named(step: StepDescription) -> set[str]:
    return {word for name in step.phrase.names for word in name.lower().split()}


def _before_the_answer(
    state: EpisodeState, step: StepDescription, left: Sequence[str], owed: int
) -> tuple[list[str], list[str]]:
    """What an outcome may depend on but for the answer: what is likely to decide it, and the rest."""
    event, past, happened = state.event(step.action), state.event_counts, state.happened
    count, deeds, named = min(past[event], 3), state.done_with(step.phrase)[-_DEEDS:], _named(step)
    strong = ["bias", f"event {event}", f"again {event} {count}", f"owed {owed}", f"owed {event} {owed}"]
    strong += [f"step {state.step}", f"step {event} {state.step}"]
    strong += [f"done {event} {deed}" for deed in deeds]
    for word in left[:_GOAL_WORDS]:
        strong += [f"goal {event} {word}", f"goal {event} {word} {count}"]
    texts = list[str]()
    relations, shown = sorted(step.relations)[:_RELATIONS], sentences(state.observation)[:_SENTENCES]
    for relation in relations:
        texts += [f"relation {relation}", f"relation {event} {relation}"]
    for stands in state.standing(step.action):
        texts += [f"stands {event} {stands}", f"stands {step.phrase.verb} {stands}"]
    for sentence in shown:
        texts += [f"shown {event} {sentence}", f"shown {step.action} {sentence}"]
    texts += [f"shown {event} {sentence} {relation}" for sentence in shown[:6] for relation in relations[:8]]
    rare = state.language.recurring_words(state.observation)[:_WORDS]
    texts += [f"word {event} {word}" for word in rare]
    texts += [f"word {step.phrase.skeleton} {name} {word}" for name in sorted(named)[:_NAMES] for word in rare]
    texts += [f"happened {event} {other}" for other in list(at_least(happened, 3))[-_PAST:]]
    texts += [f"role {event} {other}" for other in list(at_least(state.role_counts, 3))[-_PAST:]]
    texts += [f"fact {event} {fact}" for fact in state.deeds_and_sentences()]
    texts += [f"before {event} {other}" for other in sorted(past)[:24]]
    texts += [f"lately {event} {state.event(other)}" for other in dict.fromkeys(state.actions[-6:])]
    texts += [f"goal done {event} {deed} {word}" for deed in deeds for word in left[:_GOAL_WORDS]]
    return strong, texts


def _levels(event: str, numbers: Array) -> Iterator[str]:
    for place, number in enumerate(numbers.tolist()):
        yield f"level {place} {event} {math.copysign(math.floor(2 * math.log2(1 + abs(number))), number):.0f}"


def last_numbers(state: EpisodeState, action: str, answer: str) -> Array:
    """The numbers a reward may follow: of the action, the answer, the last observation and action that named any."""
    numbers = last_number(action), last_number(answer), state.last_number, state.last_bid
    return np.array([1.0, *(0.0 if number is None else number for number in numbers)])
