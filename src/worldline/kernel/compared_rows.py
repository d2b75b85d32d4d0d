"""Which rows of a log are compared with a step: those that share a context with it, and the most similar of them.

Rows are collected from the contexts a step shares with the log, from specific to general; beside these, earlier steps
of the episode itself. What they answer is for `candidates` to say.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.kernel.episode_state import Codes, EpisodeState, StepDescription
from worldline.kernel.language import code
from worldline.kernel.shared_facts import Records
from worldline.kernel.step_table import COLUMN, CONTEXTS, Rows, StepTable
from worldline.kernel.vectors import Array

KEPT = 48
"""Rows whose answers are considered."""
_OF_A_SORT, _OTHERS = 2, 8
"""Beside these, rows of each other sort of answer to a like-worded action, and of all such sorts."""
_OWN = 6
"""Earlier steps of the episode that are considered."""
_SHOWN, _OF_TASK = 4, 12
"""Rows whose answers show what their goals name, and rows of the task with the action: so many, if there are."""

_LIKE_WORDED = 3
"""Where the task has fewer rows with a like-worded action, all of its rows are looked at, and those with a word of the
action are considered."""
_TASK_SKELETON = list(CONTEXTS).index("task, skeleton")


@dataclass(frozen=True)
class ComparedRows:
    """Rows worth comparing, the most similar first after those of this episode, and how they compare with the step."""

    rows: Rows
    """Rows of the log; -1 - step for an earlier step of this episode."""
    same: npt.NDArray[np.bool_]
    """(rows, len(COLUMNS)): which entries of the descriptions are equal."""
    compared: npt.NDArray[np.float32]
    """(rows, len(COMPARED))"""
    sizes: npt.NDArray[np.int64]
    """Of each context but the last resorts, the rows that share it with the step."""

    def __len__(self) -> int:
        return len(self.rows)


COMPARED = (
    "cosine of observations",
    "cosine of actions",
    "cosine of memories",
    "cosine of deeds",
    "numbers of observations near",
    "numbers of observations equal",
    "numbers of actions near",
    "numbers of actions equal",
    "steps near",
    "relations shared",
    "relations equal",
    "list shapes shared",
    "numbers in proportion",
    "facts shared with the episode",
    "facts shared with the task",
)
_SHARED = slice(COMPARED.index("facts shared with the episode"), COMPARED.index("facts shared with the task") + 1)
_SAME_WEIGHTS = np.array(
    [
        {"task": 1.5, "observation": 1.2, "action": 3.0, "history": 1.0, "path": 1.0}.get(
            name, 0.0 if name in ("step", "list") else 0.5
        )
        for name in COLUMN
    ],
    np.float32,
)
_COMPARED_WEIGHTS = np.array([1.0, 2.0, 1.0, 0.0, 0.5, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.3, 0.3], np.float32)
"""The cheap guess of how much a row says about a step, by which rows are chosen; the gate learns its own weights."""


def pool(
    log: StepTable,
    state: EpisodeState,
    step: StepDescription,
    turn: int,
    records: Records,
    left_out: npt.NDArray[np.bool_] | None = None,
) -> ComparedRows:
    """The rows most like `step`, but for those `left_out` (N,). `turn` varies which of very many are looked at."""
    *caps, most_of_task, most = CONTEXTS.values()
    *contexts, of_this_task, everything = log.contexts(step)
    if left_out is not None:
        contexts = [rows[~left_out[rows]] for rows in contexts]
    paraphrased = len(contexts[_TASK_SKELETON]) < _LIKE_WORDED
    rows = _distinct([_looked_at(rows, cap, turn) for rows, cap in zip(contexts, caps, strict=True)])
    for wanted, others, cap in ((paraphrased, of_this_task, most_of_task), (len(rows) < KEPT, everything, most)):
        if wanted:
            others = others if left_out is None else others[~left_out[others]]
            rows = _distinct([rows, _looked_at(others, cap, turn)])
    codes = log.codes[rows]
    same = codes == step.codes
    compared = _guessed(log, step, codes, log.memory[rows], log.proportions[rows])
    compared[:, _SHARED] = _shared(records, log.episode_of[rows])
    jitter = ((rows * 2654435761 + turn * 40503) % 1024) / 10240
    score = same @ _SAME_WEIGHTS + compared @ _COMPARED_WEIGHTS + jitter
    order = np.argsort(-score, kind="stable")
    in_order = rows[order]
    like_worded = log.skeletons[in_order] == code(step.phrase.skeleton)
    alike = same[order, COLUMN["action"]] | ((compared[order, 1] > 0) & paraphrased)
    shown = log.goal_shown[in_order] & like_worded & ~same[order, COLUMN["goal"]]
    kept = _distinct_in_order(
        [
            order[:KEPT],
            order[_of_other_sorts(log.sorts[in_order], like_worded)],
            order[shown][:_SHOWN],
            order[same[order, COLUMN["task"]] & alike][:_OF_TASK],
        ]
    )
    rows, codes, same, compared = rows[kept], codes[kept], same[kept], compared[kept]
    _complete(compared, log, state, step, codes, log.deeds[rows])
    related = [log.relations[row] for row in rows.tolist()]
    mine = _own_steps(state, step)
    if mine:
        past = [state.descriptions[at] for at in mine]
        codes = np.stack([one.codes for one in past])
        memory, deeds = np.stack([one.memory for one in past]), np.stack([one.deeds for one in past])
        rows = np.concatenate([-1 - np.array(mine), rows])
        same = np.concatenate([codes == step.codes, same])
        proportions = np.array([one.proportion for one in past], np.float32)
        of_mine = _guessed(log, step, codes, memory, proportions)
        of_mine[:, _SHARED] = compared[:, _SHARED].max(0, initial=0.0)
        _complete(of_mine, log, state, step, codes, deeds)
        compared = np.concatenate([of_mine, compared])
        related = [*(one.relations for one in past), *related]
    shared = {one: _overlap(one, step.relations) for one in set(related)}
    compared[:, 9] = [shared[one] for one in related]
    compared[:, 10] = [one == step.relations for one in related]
    return ComparedRows(rows, same, compared, np.array([len(members) for members in contexts]))


def _shared(records: Records, episodes: Rows) -> Array:
    """How far episodes share hidden facts with an episode and its task (episodes, 2).

    Facts depend on each other: the larger their sum, the less it says.
    """
    sums = np.stack([records.episode.log_ratios[episodes], records.task.log_ratios[episodes]], 1)
    out: Array = 3 * np.tanh(sums / 6)
    return out


def _looked_at(rows: Rows, most: int, turn: int) -> Rows:
    """So many of the rows at most, from a place on that `turn` decides."""
    if len(rows) <= most:
        return rows
    start = turn % len(rows)
    return np.concatenate([rows[start : start + most], rows[: max(0, start + most - len(rows))]])


def _of_other_sorts(sorts: Rows, like_worded: npt.NDArray[np.bool_]) -> Rows:
    """Of rows with a like-worded action, the first of each sort of answer that the rows kept do not have: their places.

    Where an action has always been refused, what is answered to its like is possible too.
    """
    there = set(sorts[:KEPT].tolist())
    left = KEPT + np.flatnonzero(like_worded[KEPT:])
    taken: Counter[int] = Counter()
    out: list[int] = []
    for at, sort in zip(left.tolist(), sorts[left].tolist(), strict=True):
        if sort not in there and taken[sort] < _OF_A_SORT and len(out) < _OTHERS:
            taken[sort] += 1
            out.append(at)
    return np.array(out, np.int64)


def _distinct_in_order(parts: Sequence[Rows]) -> Rows:
    return np.array(list(dict.fromkeys(np.concatenate(parts).tolist())), np.int64)


def _distinct(parts: Sequence[Rows]) -> Rows:
    """All rows of the parts, in order, each once. As `np.unique`, at a quarter of its cost for a few hundred."""
    rows = np.sort(np.concatenate(parts))
    first = np.empty(len(rows), np.bool_)
    first[:1] = True
    np.not_equal(rows[1:], rows[:-1], out=first[1:])
    return rows[first]


def _guessed(
    log: StepTable, step: StepDescription, codes: Codes, memory: Array, proportions: Array
) -> npt.NDArray[np.float32]:
    """Those of COMPARED by which rows are chosen."""
    language = log.language
    shown, done = codes[:, COLUMN["observation"]], codes[:, COLUMN["action"]]
    here, act = int(step.codes[COLUMN["observation"]]), int(step.codes[COLUMN["action"]])
    out = np.zeros((len(codes), len(COMPARED)), np.float32)
    out[:, 0], out[:, 1] = language.observations.cosines(here, shown), language.actions.cosines(act, done)
    out[:, 2] = memory @ step.memory
    gaps = language.observations.number_gaps(here, shown)
    out[:, 4], out[:, 5] = np.exp(-gaps / 3), gaps == 0
    gaps = language.actions.number_gaps(act, done)
    out[:, 6], out[:, 7] = np.exp(-gaps / 3), gaps == 0
    out[:, 12] = _in_proportion(proportions, step.proportion)
    return out


def _complete(
    compared: npt.NDArray[np.float32],
    log: StepTable,
    state: EpisodeState,
    step: StepDescription,
    codes: Codes,
    deeds: Array,
) -> None:
    """Add the others of COMPARED but for relations."""
    compared[:, 3] = deeds @ step.deeds
    compared[:, 8] = np.exp(-np.abs(codes[:, COLUMN["step"]] - state.step) / 3)
    overlaps = log.language.shape_overlaps(int(step.codes[COLUMN["shape"]]))
    compared[:, 11] = overlaps[codes[:, COLUMN["shape"]]]


def _in_proportion(proportions: Array, proportion: float) -> Array:
    """How near the proportions of numbers are, 0 to 1; 1 where neither step has any."""
    if np.isnan(proportion):
        return np.isnan(proportions).astype(np.float32)
    near: Array = np.exp(-8 * np.abs(proportions - proportion))
    near[np.isnan(near)] = 0.0
    return near


def _overlap(first: frozenset[int], second: frozenset[int]) -> float:
    """Shared members as a share of all; 1 where both are empty."""
    if not first or not second:
        return float(not first and not second)
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


def _own_steps(state: EpisodeState, step: StepDescription) -> list[int]:
    """Earlier steps of the episode: the latest with the same action or worded alike, the latest first."""
    alike = state.steps_of.get(step.phrase.skeleton, ())[-_OWN:]
    return sorted(alike, key=lambda at: (state.actions[at] != step.action, -at))
