"""How the world words its answer, from everything an episode holds: a log-linear model over hashed features.

Similar steps say what has been answered; this says which of these answers fits what was done and read before: the key
that the note named, the number that lies between two guesses. It chooses among the wordings of a step's candidates.
One model is fitted for each half of the log, on the other half: a logged step is judged by the one that has not seen
it, so that the gate learns how far to trust such a judgement; a new step by both.
"""

import functools
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from worldline.kernel.bids import Bid, Bids, among
from worldline.kernel.candidates import Candidates
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.language import first_number, wording
from worldline.kernel.paths import opening
from worldline.kernel.phrases import Phrase
from worldline.kernel.step_table import FOLDS, LeftOut, StepTable
from worldline.kernel.vectors import used_columns
from worldline.kernel.words import at_least, stable_hash

BUCKETS = 1 << 18
LEAST = -8.0
"""No wording of a candidate is held to be less likely than this, in nats."""
_LONGEST = 272
_STEPS, _BATCH, _RATE, _DECAY = 300, 256, 3e-2, 2e-3
_MIX = np.int64(0x9E3779B97F4A7C1)
_BIDS = 256
"""Bids of a task that are looked at for each skeleton."""
Words = tuple[str, ...]
Pair = tuple[Words, str]
"""The words of an action's names, and the sort of the answer to it."""
_PAIRS = 32
Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Wordings:
    """The distinct wordings of some candidates, the features of each (n, F), and which one each candidate has."""

    texts: tuple[str, ...]
    ids: npt.NDArray[np.int32]
    of: npt.NDArray[np.int64]


class TaskPairs:
    """Actions that were done in each task, by their skeleton, with what was answered to them in an episode."""

    def __init__(self, log: StepTable) -> None:
        self._pairs: dict[tuple[str, str], list[tuple[int, Pair]]] = defaultdict(list)
        for at in log.shuffled:
            row, phrase = log.rows[at], log.phrases[at]
            pair = name_words(phrase), log.language.sort(row.answer, phrase)
            self._pairs[log.episodes[row.episode].task_id, phrase.skeleton].append((at, pair))

    def of(self, task: str, skeleton: str, left_out: LeftOut = None) -> list[Pair]:
        """Pairs of a task, less those of the rows left out."""
        pairs = self._pairs.get((task, skeleton), [])
        return [*itertools.islice((pair for at, pair in pairs if left_out is None or not left_out[at]), _PAIRS)]


def beside(words: Words, pairs: Sequence[Pair]) -> Iterator[str]:
    """An action's names beside those of others: words in the same place, words elsewhere, and what was answered.

    What is answered to one action says something about one that is nearly the same.
    """
    for other, answer in dict.fromkeys(pairs):
        yield f"{_overlap(words, other)} {answer}"


@functools.lru_cache(maxsize=1 << 16)
def _overlap(words: Words, other: Words) -> str:
    in_place = sum(a == b for a, b in zip(words, other, strict=False))
    return f"{in_place} {(Counter(words) & Counter(other)).total() - in_place} {len(words) - len(other)}"


class TaskBids:
    """The numbers that were tried in each task, by the action's skeleton, and how they were answered."""

    def __init__(self, log: StepTable) -> None:
        self._bids: dict[str, dict[str, list[tuple[int, Bid]]]] = defaultdict(lambda: defaultdict(list))
        for at in log.shuffled:
            row, phrase, number = log.rows[at], log.phrases[at], log.numbers[at]
            if number is not None:
                bid = number, log.language.sort(row.answer, phrase)
                self._bids[log.episodes[row.episode].task_id][phrase.skeleton].append((at, bid))

    def of(self, task: str, left_out: LeftOut = None) -> Bids:
        """Bids of a task by their skeleton, less those of the rows left out."""
        return {
            skeleton: [*itertools.islice((bid for at, bid in bids if left_out is None or not left_out[at]), _BIDS)]
            for skeleton, bids in self._bids.get(task, {}).items()
        }


def name_words(phrase: Phrase) -> Words:
    return tuple(" ".join(phrase.names).lower().split())


def wordings(
    state: EpisodeState, step: StepDescription, possible: Candidates, bids: Bids, pairs: Sequence[Pair] = ()
) -> Wordings:
    """How the candidates are worded, and what speaks for each wording; `bids` and `pairs` are those of the task."""
    of_text: dict[str, str] = {}
    numbers: dict[str, int] = {}
    of = []
    for text in possible.texts:
        if text not in of_text:
            of_text[text] = state.language.sort(text, step.phrase)
        of.append(numbers.setdefault(of_text[text], len(numbers)))
    openings = {sort: state.language.number_free(opening(text), step.phrase) for text, sort in of_text.items()}
    codes = [[stable_hash(sort) >> 2, stable_hash(f"opening {openings[sort]}") >> 2] for sort in numbers]
    texts = _features(state, step, bids, pairs)[:_LONGEST]
    features = np.array([stable_hash(text) >> 2 for text in texts], np.int64)
    mixed = (features[None, None, :] ^ np.array(codes, np.int64)[:, :, None]).reshape(len(codes), -1) * _MIX
    return Wordings(tuple(numbers), (1 + (mixed >> 8) % (BUCKETS - 1)).astype(np.int32), np.array(of))


def _features(state: EpisodeState, step: StepDescription, bids: Bids, pairs: Sequence[Pair]) -> list[str]:
    """Everything the wording of an answer may depend on."""
    action, event, past = step.action, state.event(step.action), state.actions
    shown = wording(state.observation, step.phrase)
    count, times_done = min(state.action_counts[action], 4), state.event_counts[event]
    texts = [
        "bias",
        f"action {action}",
        f"event {event}",
        f"listed {state.offered(action)} {event}",
        f"seen {state.observation} {action}",
        f"shown {shown} {event}",
        f"again {action} {count}",
        f"again {event} {min(times_done, 4)}",
        f"step {event} {min(state.step, 12)}",
        f"after {past[-1] if past else ''} {action}",
        f"after {' / '.join(past[-2:])} {action}",
        f"after {' / '.join(past[-2:])} {shown} {action}",
        f"answers {wording(state.answers[-2], step.phrase) if len(past) > 1 else ''} {shown} {event}",
    ]
    for relation in sorted(step.relations)[:24]:
        texts += [f"relation {event} {relation}"]
    for stands in state.standing(action):
        texts += [f"stands {event} {stands}", f"stands {step.phrase.verb} {stands}"]
    words = name_words(step.phrase)
    if words:
        own = []
        for at in state.steps_of.get(step.phrase.skeleton, ())[-_PAIRS:]:
            phrase = state.descriptions[at].phrase
            own.append((name_words(phrase), state.language.sort(state.answers[at], phrase)))
        texts += [f"beside {event} {text}" for text in beside(words, own)]
        texts += [f"in the task beside {event} {text}" for text in beside(words, pairs)]
    number = first_number(action)
    if number is not None:
        for place, other in enumerate((state.last_number, state.first_number, state.last_bid)):
            if other:
                level = min(int(10 * number / other), 15)
                texts += [f"at least {place} {event} {at}" for at in range(1, level + 1)]
    texts += [f"among {event} {text}" for text in among(state.bids, bids, step.phrase, action)]
    texts += [f"heard {event} {answer}" for answer in at_least(state.heard, 4)]
    texts += [f"done {event} {at}" for at in range(min(times_done, 6))]
    texts += [f"fact {event} {fact}" for fact in state.deeds_and_sentences()]
    texts += [f"did {event} {other} {min(times, 3)}" for other, times in Counter(past[-12:]).items()]
    texts += [f"before {event} {other}" for other in at_least(state.event_counts, 3)]
    texts += [f"happened {event} {other}" for other in at_least(state.happened, 3)]
    texts += [f"role {event} {other}" for other in at_least(state.role_counts, 3)]
    return texts


@dataclass(frozen=True)
class WordingExercise:
    """A logged step: the wordings of its candidates, and which of them are right: what was answered, or stands in."""

    fold: int
    wordings: Wordings
    right: Sequence[int]


class WordingModel(nn.Module):
    """log p(wording | history, action), among the wordings of the candidates."""

    weights: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weights", torch.zeros(FOLDS, BUCKETS))

    def log_chances(self, many: Wordings, fold: int = -1) -> Floats:
        """For each candidate, the log-probability of its wording; by the model that has not seen `fold`."""
        table = self.weights.numpy()
        models = [fold] if fold >= 0 else range(len(table))
        scores = sum(table[model][many.ids].sum(1) for model in models) / len(models)
        scores = scores - scores.max()
        chances = scores - np.log(np.exp(scores).sum())
        out: Floats = np.maximum(chances, LEAST)[many.of].astype(np.float32)
        return out

    def fit(self, exercises: Sequence[WordingExercise], seed: int) -> None:
        """Fit the model of each fold on the others."""
        useful = [one for one in exercises if 0 < len(one.right) < len(one.wordings.texts)]
        for fold in range(len(self.weights)):
            others = [one for one in useful if one.fold != fold]
            if others:
                self._fit_fold(fold, others, seed)

    def _fit_fold(self, fold: int, own: Sequence[WordingExercise], seed: int) -> None:
        """Make the right wordings of a step likely, all together; a step's wordings are rows of one sparse matrix."""
        used, columns = used_columns(np.concatenate([one.wordings.ids.ravel() for one in own]), BUCKETS)
        shapes = np.array([one.wordings.ids.shape for one in own])
        ends = np.concatenate([[0], np.cumsum(np.repeat(shapes[:, 1], shapes[:, 0]))])
        features = csr_matrix((np.ones(len(columns), np.float32), columns, ends), shape=(len(ends) - 1, len(used)))
        many = shapes[:, 0]
        first = np.cumsum(many) - many
        right = np.zeros(len(ends) - 1, bool)
        right[np.concatenate([start + np.array(one.right) for start, one in zip(first, own, strict=True)])] = True
        weights = torch.zeros(len(used), requires_grad=True)
        optimizer = torch.optim.Adam([weights], lr=_RATE)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, _STEPS)
        generator = torch.Generator().manual_seed(seed + fold)
        for _ in range(_STEPS):
            steps = torch.randint(len(own), (min(_BATCH, len(own)),), generator=generator).numpy()
            starts = np.cumsum(many[steps]) - many[steps]
            rows = np.repeat(first[steps] - starts, many[steps]) + np.arange(many[steps].sum())
            batch, now = features[rows], weights.detach().numpy()
            scores = batch @ now
            among_right = np.where(right[rows], scores, -np.inf)
            errors = _softmax(scores, starts, many[steps]) - _softmax(among_right, starts, many[steps])
            weights.grad = torch.from_numpy(batch.T @ (errors / len(steps)) + 2 * _DECAY * now)
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            self.weights[fold][torch.from_numpy(used)] = weights


def _softmax(scores: Floats, starts: Ids, many: Ids) -> Floats:
    """Probabilities within segments of `many` scores that begin at `starts`."""
    mass: Floats = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), many))
    mass /= np.repeat(np.add.reduceat(mass, starts), many)
    return mass
