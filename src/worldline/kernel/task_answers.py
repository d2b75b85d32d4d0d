"""What a task answers to actions like one, in whichever words: what is told, and not how; and what came of it.

"You see Ida: a brown coat, grey hair" and "Ida has grey hair, and wears a coat of brown wool" agree in what they tell.
A word tells something where it comes again in other episodes of the task, when the like is asked, more often than in
other tasks. Counted in the log; no word is built in. A logged episode is judged by words that other episodes have
weighed, those of its own policy among them, and by no answer that is left out.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from worldline.kernel.episode_state import StepDescription
from worldline.kernel.language import code
from worldline.kernel.phrases import Phrase
from worldline.kernel.step_table import COLUMN, LeftOut, Rows, StepTable
from worldline.kernel.vectors import Array
from worldline.kernel.words import vocabulary

Weights = Mapping[str, float]
_LEAST = 1.3
"""A word that comes again so many times as often as in other tasks tells something."""
_SURE = 2.0
"""And so many standard deviations more often than by chance."""
_EQUAL, _HALF = 1e-6, 0.1
"""Agreements that differ by less are the same; the share of the answers that supports a word by half."""
_PRIOR = 4.0
"""Pairs of episodes in which a word comes again as often as in other tasks, added to those that are counted."""
_MOST, _MOST_WORDS, _RAREST = 2000, 60_000, 3
"""Steps that are compared in pairs, the words of their answers, and the steps that a word must be told at."""
_LOOKED_AT, _VOTES = 256, 32
"""Steps of a task that are looked at, and those that vote: a step costs the same in a larger log."""
_UNLIKE, _OF_SAME_NAMES = 0.05, 0.1
"""Actions without names that are alike by less are not; those of the same names are by as much, however worded."""
_DOUBT = 0.5
"""Votes for every outcome as frequent as it is in the log, added to those of the task."""
_PARTS, _NOBODY = 6, -1
"""Parts of the log, each judged by words that the others have weighed; and that of a new episode."""
_NO_ROWS: Rows = np.zeros(0, np.int64)


@dataclass(frozen=True)
class TaskVotes:
    """What steps of a task with actions like one were answered, each as far as its action is like it."""

    shares: Mapping[str, float]
    """The share of these answers that has each word which tells something."""
    weights: Weights
    outcomes: Array
    """Of each class of outcomes, how much likelier it is than in the whole log, as a logarithm."""

    def judged(self, text: str) -> tuple[float, float]:
        """How far these answers tell what a text tells, and what share of that none of them tells; 0 without any."""
        if not self.shares:
            return 0.0, 0.0
        telling = self.weights.keys() & vocabulary(text)
        weighed = [(self.weights[word], self.shares.get(word, 0.0)) for word in telling]
        total = math.fsum(weight for weight, _ in weighed)
        if not weighed:
            return 0.0, 0.0
        supported = math.fsum(weight * share / (share + _HALF) for weight, share in weighed)
        return supported / total, math.fsum(weight for weight, share in weighed if not share) / total

    def tells_alike(self, texts: Sequence[str], answer: str, phrase: Phrase) -> npt.NDArray[np.bool_]:
        """Which texts tell what an answer tells, or as much of it as any does; all, where it tells nothing."""
        telling = _words_besides_names(answer, phrase).intersection(self.weights)
        agreements = np.array([self._agreement(telling, vocabulary(text)) for text in texts])
        alike: npt.NDArray[np.bool_] = agreements >= agreements.max() - _EQUAL
        return alike

    def _agreement(self, telling: frozenset[str], words: frozenset[str]) -> float:
        """The weight of what both tell as a share of what either does."""
        both = math.fsum(self.weights[word] for word in telling & words)
        either = math.fsum(self.weights[word] for word in telling.union(words) if word in self.weights)
        return both / either if either else 0.0


class TaskAnswers:
    """The words that tell something, and the answers of each task."""

    def __init__(self, log: StepTable, classes: npt.NDArray[np.int64], shares: npt.NDArray[np.float64]) -> None:
        """`classes` are those of the rows' outcomes, `shares` how frequent each class is."""
        self._log, self._classes, self._shares = log, classes, shares
        self._rows, self._likeness = _rows_of_tasks(log), _Likeness(log)
        """The rows of each task in any order, so that those looked at are not of one policy."""
        self.weights = _weights(log, self._likeness)
        weighed = frozenset().union(*self.weights.values())
        answered = zip(log.rows, log.phrases, strict=True)
        self._words = [_words_besides_names(row.answer, phrase) & weighed for row, phrase in answered]

    def votes(self, task: int, step: StepDescription, own: int, left_out: LeftOut) -> TaskVotes:
        """What the task tells to an action of episode `own` (-1: a new one), less the rows left out."""
        weights = self.weights[_part_of(own) if own >= 0 else _NOBODY]
        rows = self._rows.get(task, _NO_ROWS)
        rows = (rows if left_out is None else rows[~left_out[rows]])[:_LOOKED_AT]
        alike = self._likeness.to(step.phrase, rows)
        voting = np.argsort(-alike, kind="stable")[:_VOTES]
        voting = voting[alike[voting] > 0]
        mass: dict[str, float] = defaultdict(float)
        for row, share in zip(rows[voting].tolist(), alike[voting].tolist(), strict=True):
            for word in self._words[row]:
                if word in weights:
                    mass[word] += share
        total = float(alike[voting].sum())
        counted = np.bincount(self._classes[rows[voting]], alike[voting], len(self._shares))
        likelier = (counted + _DOUBT * self._shares) / (total + _DOUBT) / self._shares
        return TaskVotes(
            {word: one / total for word, one in mass.items()}, weights, np.log(likelier).astype(np.float32)
        )


class _Likeness:
    """How far actions ask the like of the same things: they have the same names, and words beside them in common."""

    def __init__(self, log: StepTable) -> None:
        self._weights = log.language.weights
        skeletons = [phrase.skeleton for phrase in log.phrases]
        vectors = {skeleton: self._weights.vector(skeleton) for skeleton in set(skeletons)}
        self._vectors = np.stack([vectors[skeleton] for skeleton in skeletons])
        self._names = np.array([_names(phrase) for phrase in log.phrases])
        self._many = np.array([len(phrase.names) for phrase in log.phrases])

    def to(self, phrase: Phrase, rows: Rows) -> Array:
        """Of an action to some rows."""
        shared = self._vectors[rows] @ self._weights.vector(phrase.skeleton)
        return np.where(self._names[rows] == _names(phrase), _alike(shared, bool(phrase.names)), 0.0)

    def between(self, rows: Rows) -> tuple[Array, Array]:
        """Of rows to each other where their names are the same, and where they are as many, whatever they are."""
        names, many, vectors = self._names[rows], self._many[rows], self._vectors[rows]
        alike = _alike(vectors @ vectors.T, (many > 0)[:, None])
        same, as_many = names[:, None] == names, many[:, None] == many
        return np.where(same, alike, 0.0), np.where(as_many, alike, 0.0)


def _names(phrase: Phrase) -> int:
    return code(*sorted(phrase.lowered))


def _rows_of_tasks(log: StepTable) -> dict[int, Rows]:
    shuffled = np.array(log.shuffled)
    tasks = log.codes[shuffled, COLUMN["task"]]
    sorting = np.argsort(tasks, kind="stable")
    tasks, order = tasks[sorting], shuffled[sorting]
    names, firsts = np.unique(tasks, return_index=True)
    return dict(zip(names.tolist(), np.split(order, firsts[1:]), strict=True))


def _alike(cosines: Array, named: bool | npt.NDArray[np.bool_]) -> Array:
    """By how alike their words are; where they name the same things, even questions in other words are a little."""
    alike = np.square(np.maximum(cosines, 0.0))
    by_words = np.where(alike > _UNLIKE, alike, 0.0)
    out: Array = np.where(named, _OF_SAME_NAMES + (1 - _OF_SAME_NAMES) * alike, by_words).astype(np.float32)
    return out


def _words_besides_names(answer: str, phrase: Phrase) -> frozenset[str]:
    """The words of an answer less names: those of the action, and those that the goal gives."""
    return vocabulary(answer) - vocabulary(" ".join((*phrase.names, *phrase.given)))


def _part_of(episode: int) -> int:
    """As good as by chance: the policies of a log may take turns."""
    return (episode * 2654435761 >> 12) % _PARTS


def _weights(log: StepTable, likeness: _Likeness) -> dict[int, Weights]:
    """To each part, by the other ones, how much more often a word that tells something comes again: a logarithm."""
    rows, words = _sampled(log)
    numbers: dict[str, int] = {}
    columns = np.array([numbers.setdefault(word, len(numbers)) for each in words for word in each], np.int64)
    if not len(columns):
        return {part: {} for part in (_NOBODY, *range(_PARTS))}
    starts = np.cumsum([0, *map(len, words)])
    presence = csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=(len(rows), len(numbers)))
    of_same, of_any = likeness.between(rows)
    tasks, episodes = log.codes[rows, COLUMN["task"]], log.episode_of[rows]
    same_task, parts = tasks[:, None] == tasks, np.array([_part_of(episode) for episode in episodes.tolist()])
    own = _rates(presence, parts, np.where(same_task & (episodes[:, None] != episodes), of_same, 0.0))
    others = _rates(presence, parts, np.where(same_task, 0.0, of_any))
    counts = np.stack([np.asarray(presence[parts == part].sum(0)).ravel() for part in range(_PARTS)])
    out: dict[int, Weights] = {}
    for without in (_NOBODY, *range(_PARTS)):
        kept = np.arange(_PARTS) != without
        pairs, again = (each[kept][:, kept].sum((0, 1)) for each in own)
        other_pairs, other_again = (each[kept][:, kept].sum((0, 1)) for each in others)
        usual = (other_again + _PRIOR / 2) / (other_pairs + _PRIOR)
        ratios = (again + _PRIOR * usual) / (pairs + _PRIOR) / usual
        surprise = (again - pairs * usual) / np.sqrt(pairs * usual + 1)
        telling = (counts[kept].sum(0) >= _RAREST) & (other_pairs > 0) & (ratios > _LEAST) & (surprise > _SURE)
        out[without] = {word: float(np.log(ratios[at])) for word, at in numbers.items() if telling[at]}
    return out


def _rates(presence: csr_matrix, parts: Rows, alike: Array) -> tuple[Array, Array]:
    """Of each word, (parts, parts, words): the pairs of steps of two parts of which the first tells it; and both do."""
    first, both = np.zeros((2, _PARTS, _PARTS, presence.shape[1]), np.float32)
    members = [np.flatnonzero(parts == part) for part in range(_PARTS)]
    for at, own in enumerate(members):
        shared = presence.multiply((presence[own].T @ alike[:, own].T).T).tocsr()
        total = alike[:, own].sum(1)
        for part, rows in enumerate(members):
            first[part, at] = presence[rows].T @ total[rows]
            both[part, at] = np.asarray(shared[rows].sum(0)).ravel()
    return first, both


def _sampled(log: StepTable) -> tuple[Rows, list[list[str]]]:
    """Rows, task by task, as many as are compared, and the words of their answers."""
    tasks = [*_rows_of_tasks(log).values()]
    order = np.random.default_rng(0).permutation(len(tasks)).tolist()
    rows = (row for at in order for row in tasks[at].tolist())
    sampled, words, many = list[int](), list[list[str]](), 0
    for row in itertools.islice(rows, _MOST):
        sampled.append(row)
        words.append(sorted(_words_besides_names(log.rows[row].answer, log.phrases[row])))
        many += len(words[-1])
        if many > _MOST_WORDS:
            break
    return np.array(sampled, np.int64), words
