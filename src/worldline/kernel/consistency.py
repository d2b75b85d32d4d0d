"""How sure an earlier answer is a later one: by sort of action, how often the log answers alike where a context recurs.

Some actions get the same answer whenever they are done in a task, others whatever chance says, others one answer the
first time and another the second. The log's pairs of steps say which: each pair shares a context, and its answers are
of one sort or not.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from worldline.kernel.step_table import COLUMN, StepTable

Floats = npt.NDArray[np.float64]
AGAIN = "done before in this episode"
SHARED = {
    "observation and action": ("observation", "action"),
    "task and action": ("task", "action"),
    "action": ("action",),
    "history": ("history",),
    "path": ("path",),
    "deeds": ("deeds",),
}
"""What steps of two episodes may share."""
CONTEXTS = (*SHARED, AGAIN)
_MOST = 8
"""Episodes of a context whose pairs are counted."""
_PRIOR = 4.0
"""Pairs that those of all actions stand for."""


class Consistency:
    """Of each skeleton, the share of pairs that were answered alike, in each of CONTEXTS."""

    def __init__(self, log: StepTable) -> None:
        nothing = (len(CONTEXTS), 2)
        self._counts: dict[str, Floats] = defaultdict(lambda: np.zeros(nothing))
        """Of each skeleton, pairs that were answered alike, and all (CONTEXTS, 2); below, those with an episode."""
        self._of_episode: dict[tuple[str, int], Floats] = defaultdict(lambda: np.zeros(nothing))
        self._count_shared(log)
        self._count_again(log)
        total = sum(self._counts.values(), np.zeros(nothing))
        self._overall = (total[:, 0] + 1) / (total[:, 1] + 2)

    def of(self, skeleton: str, but: int) -> Floats:
        """The share in each of CONTEXTS, episode `but` left out."""
        counts = self._counts[skeleton] if skeleton in self._counts else np.zeros((len(CONTEXTS), 2))
        if (skeleton, but) in self._of_episode:
            counts = counts - self._of_episode[skeleton, but]
        shares: Floats = (counts[:, 0] + _PRIOR * self._overall) / (counts[:, 1] + _PRIOR)
        return shares

    def _count_shared(self, log: StepTable) -> None:
        for at, columns in enumerate(SHARED.values()):
            members: dict[tuple[int, ...], dict[int, int]] = defaultdict(dict)
            keys = log.codes[:, [COLUMN[name] for name in columns]].tolist()
            for row, (key, episode) in enumerate(zip(keys, log.episode_of.tolist(), strict=True)):
                group = members[tuple(key)]
                if len(group) < _MOST:
                    group.setdefault(episode, row)
            for group in members.values():
                self._count_pairs(log, at, list(group.values()))

    def _count_pairs(self, log: StepTable, at: int, rows: Sequence[int]) -> None:
        skeleton = log.phrases[rows[0]].skeleton
        for place, row in enumerate(rows):
            for other in rows[:place]:
                pair = np.array([log.sorts[row] == log.sorts[other], 1.0])
                self._counts[skeleton][at] += pair
                for episode in (log.episode_of[row], log.episode_of[other]):
                    self._of_episode[skeleton, int(episode)][at] += pair

    def _count_again(self, log: StepTable) -> None:
        at = CONTEXTS.index(AGAIN)
        last: dict[tuple[int, str], int] = {}
        for number, row in enumerate(log.rows):
            key = row.episode, row.action
            if key in last:
                pair = np.array([log.sorts[number] == log.sorts[last[key]], 1.0])
                skeleton = log.phrases[number].skeleton
                self._counts[skeleton][at] += pair
                self._of_episode[skeleton, row.episode][at] += pair
            last[key] = number


def evidence(consistency: Floats, shares: Floats, possible: int) -> Floats:
    """How many times likelier than any of `possible` sorts an answer is, as a logarithm (..., contexts).

    `shares` (..., contexts) of a context's steps were answered so; in a share `consistency` of cases that holds again.
    """
    out: Floats = np.log(possible * consistency * shares + 1 - consistency)
    return out
