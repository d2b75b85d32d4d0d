"""What a task answers about a thing, in whichever words: what is told, and not how.

"You see Ida: a brown coat, grey hair" and "Ida has grey hair, and wears a coat of brown wool" agree in what they tell.
A word tells something where it comes again in other episodes of the task, when the same names are asked about, more
often than in other tasks. Counted in the log; no word is built in. A logged episode is judged by words that the other
half of the log has weighed, and by no answer that is left out.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.kernel.phrases import Phrase
from worldline.kernel.step_table import FOLDS, LoggedStep, StepTable, fold_of
from worldline.kernel.words import vocabulary

Asked = tuple[str, tuple[str, ...]]
"""A task and the names of an action, in the order of the alphabet."""
Weights = Mapping[str, float]
_LEAST = 1.3
"""A word that comes again so many times as often as in other tasks tells something."""
_PRIOR = 4.0
"""Pairs of episodes in which a word comes again as often as in other tasks, added to those that are counted."""
_VOTES = 32
"""Answers that vote at most: a step costs the same in a larger log."""
_NOBODY = -1
"""The fold of a new episode: no half of the log has it."""


@dataclass(frozen=True)
class TaskVotes:
    """The share of a task's answers about some names that have each word which tells something."""

    shares: Mapping[str, float]
    weights: Weights

    def agreement(self, text: str) -> float:
        """How far a text tells what these answers tell, 0 to 1."""
        words = vocabulary(text)
        own = math.fsum(self.weights[word] for word in words if word in self.weights)
        voted = math.fsum(self.weights[word] * share for word, share in self.shares.items())
        both = math.fsum(self.weights[word] * share for word, share in self.shares.items() if word in words)
        return both / (own + voted - both) if both else 0.0


class TaskAnswers:
    """The words that tell something, and the answers of each task about each thing."""

    def __init__(self, log: StepTable) -> None:
        rows: dict[Asked, list[int]] = defaultdict(list)
        for at, (row, phrase) in enumerate(zip(log.rows, log.phrases, strict=True)):
            if phrase.lowered:
                rows[_asked(log.episodes[row.episode].task_id, phrase)].append(at)
        self._rows = {asked: np.array(members) for asked, members in rows.items()}
        self.weights = {fold: _weights(log, rows, fold) for fold in (_NOBODY, *range(FOLDS))}
        weighed = frozenset(itertools.chain(*self.weights.values()))
        self._words = {at: _told(log.rows[at]) & weighed for members in rows.values() for at in members}

    def votes(self, task: str, phrase: Phrase, own: int, left_out: npt.NDArray[np.bool_] | None) -> TaskVotes:
        """What the task tells about the names of an action to episode `own` (-1: a new one), less the rows left out."""
        weights = self.weights[fold_of(own) if own >= 0 else _NOBODY]
        rows = self._rows.get(_asked(task, phrase), _NO_ROWS)
        rows = (rows if left_out is None else rows[~left_out[rows]])[-_VOTES:]
        counts = Counter(word for at in rows.tolist() for word in self._words[at] if word in weights)
        return TaskVotes({word: times / len(rows) for word, times in counts.items()}, weights)


_NO_ROWS = np.zeros(0, np.int64)


def _asked(task: str, phrase: Phrase) -> Asked:
    return task, tuple(sorted(phrase.lowered))


def _told(row: LoggedStep) -> frozenset[str]:
    return vocabulary(row.answer) - vocabulary(row.action)


def _weights(log: StepTable, rows: Mapping[Asked, list[int]], without: int) -> Weights:
    """Of each word that tells something to a fold, by the other episodes, how much more often it comes again: a log."""
    asked_about: dict[tuple[str, ...], list[tuple[int, Counter[str]]]] = defaultdict(list)
    for (_, names), members in rows.items():
        told: dict[int, frozenset[str]] = {}
        for row in (log.rows[at] for at in members):
            if fold_of(row.episode) != without:
                told[row.episode] = told.get(row.episode, frozenset()) | _told(row)
        asked_about[names].append((len(told), Counter(itertools.chain(*told.values()))))
    pairs, again, other_pairs, other_again = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for tasks in asked_about.values():
        episodes, everywhere = sum(number for number, _ in tasks), Counter[str]()
        for _, counts in tasks:
            everywhere.update(counts)
        for number, counts in tasks:
            for word, times in counts.items():
                pairs[word] += times * (number - 1)
                again[word] += times * (times - 1)
                other_pairs[word] += times * (episodes - number)
                other_again[word] += times * (everywhere[word] - times)
    weights = {}
    for word, others in other_pairs.items():
        usual = (other_again[word] + _PRIOR / 2) / (others + _PRIOR)
        ratio = (again[word] + _PRIOR * usual) / (pairs[word] + _PRIOR) / usual
        if others and ratio > _LEAST:
            weights[word] = math.log(ratio)
    return weights
