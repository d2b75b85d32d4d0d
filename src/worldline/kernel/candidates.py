"""What the world may answer to a step: answers of logged steps and of this episode, adapted to this action and moment.

Rows are collected from the contexts a step shares with the log, from specific to general, and the most similar of them
are kept. Each offers its answer as it is, with names exchanged (the action's, those of earlier actions, the goal's),
with numbers moved, or with what this episode has shown before in its place. Which of these is right is for the gate to
learn; nothing else can be answered.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.kernel.edits import EditRules, transferred
from worldline.kernel.episode_state import Codes, EpisodeState, StepDescription
from worldline.kernel.language import code
from worldline.kernel.numerals import between, shifted
from worldline.kernel.phrases import Renaming, blanked, renamed
from worldline.kernel.renamings import history_renaming, latest_phrases
from worldline.kernel.step_table import COLUMN, CONTEXTS, LoggedStep, Rows, StepTable
from worldline.kernel.vectors import Array
from worldline.kernel.words import vocabulary

KINDS = (
    "exact",
    "renamed",
    "other",
    "renamed by history",
    "renamed by goal",
    "shifted",
    "between",
    "transferred",
    "recalled",
    "edited",
)
EXACT, RENAMED, OTHER, BY_HISTORY, BY_GOAL, SHIFTED, BETWEEN, TRANSFERRED, RECALLED, EDITED = range(len(KINDS))
KEPT = 48
"""Rows whose answers are considered."""
_OF_A_SORT, _OTHERS = 2, 8
"""Beside these, rows of each other sort of answer to a like-worded action, and of all such sorts."""
_ADAPTED = 20
"""Of these, the first so many are also adapted by history, numbers and views."""
_OWN = 6
"""Earlier steps of the episode that are considered."""
_SHOWN = 4
"""Rows whose answers show what their goals name, at least, where there are so many."""


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
    """Of each context, the rows that share it with the step."""

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Candidates:
    """Possible answers. Several may have the same text."""

    texts: tuple[str, ...]
    rows: Rows
    """The row of the log each comes from; -1 - step for a step of this episode."""
    places: npt.NDArray[np.int64]
    """Its place in the pool."""
    kinds: npt.NDArray[np.int64]
    renames: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.texts)


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
)
_SAME_WEIGHTS = np.array(
    [
        {"task": 1.5, "observation": 1.2, "action": 3.0, "history": 1.0, "path": 1.0}.get(
            name, 0.0 if name in ("step", "list") else 0.5
        )
        for name in COLUMN
    ],
    np.float32,
)
_COMPARED_WEIGHTS = np.array([1.0, 2.0, 1.0, 0.0, 0.5, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5], np.float32)
"""The cheap guess of how much a row says about a step, by which rows are chosen; the gate learns its own weights."""


def pool(
    log: StepTable, state: EpisodeState, step: StepDescription, turn: int, left_out: npt.NDArray[np.bool_] | None = None
) -> ComparedRows:
    """The rows most like `step`, but for those `left_out` (N,). `turn` varies which of very many are looked at."""
    looked_at: list[Rows] = []
    sizes = []
    for cap, rows in zip(CONTEXTS.values(), log.contexts(step), strict=True):
        if left_out is not None:
            rows = rows[~left_out[rows]]
        sizes.append(len(rows))
        if len(rows) > cap:
            start = turn % len(rows)
            rows = np.concatenate([rows[start : start + cap], rows[: max(0, start + cap - len(rows))]])
        looked_at.append(rows)
    general = looked_at.pop()
    rows = _distinct(looked_at)
    if len(rows) < KEPT:
        rows = _distinct([rows, general])
    codes = log.codes[rows]
    same = codes == step.codes
    compared = _guessed(log, step, codes, log.memory[rows], log.proportions[rows])
    jitter = ((rows * 2654435761 + turn * 40503) % 1024) / 10240
    score = same @ _SAME_WEIGHTS + compared @ _COMPARED_WEIGHTS + jitter
    order = np.argsort(-score, kind="stable")
    kept = _distinct_in_order([order[:KEPT], _of_other_sorts(log, step, rows, order), _shown(log, step, rows, order)])
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
        _complete(of_mine, log, state, step, codes, deeds)
        compared = np.concatenate([of_mine, compared])
        related = [*(one.relations for one in past), *related]
    shared = {one: _overlap(one, step.relations) for one in set(related)}
    compared[:, 9] = [shared[one] for one in related]
    compared[:, 10] = [one == step.relations for one in related]
    return ComparedRows(rows, same, compared, np.array(sizes))


def _of_other_sorts(log: StepTable, step: StepDescription, rows: Rows, order: Rows) -> Rows:
    """Of rows with a like-worded action, the first of each sort of answer that the rows kept do not have.

    Where an action has always been refused, what is answered to its like is possible too.
    """
    left = order[KEPT:]
    left = left[log.skeletons[rows[left]] == code(step.phrase.skeleton)]
    left = left[~np.isin(log.sorts[rows[left]], log.sorts[rows[order[:KEPT]]])]
    taken: Counter[int] = Counter()
    out: list[int] = []
    for at, sort in zip(left.tolist(), log.sorts[rows[left]].tolist(), strict=True):
        taken[sort] += 1
        if taken[sort] <= _OF_A_SORT and len(out) < _OTHERS:
            out.append(at)
    return np.array(out, np.int64)


def _shown(log: StepTable, step: StepDescription, rows: Rows, order: Rows) -> Rows:
    """Of rows with a like-worded action of another goal, the first whose answers show what the goal names."""
    shown = log.goal_shown[rows[order]] & (log.skeletons[rows[order]] == code(step.phrase.skeleton))
    shown &= log.codes[rows[order], COLUMN["goal"]] != step.codes[COLUMN["goal"]]
    first: Rows = order[shown][:_SHOWN]
    return first


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


def candidates(
    log: StepTable, rules: EditRules, state: EpisodeState, step: StepDescription, compared: ComparedRows
) -> Candidates:
    """Everything the world may answer to `step`."""
    texts: list[str] = []
    places: list[int] = []
    kinds: list[int] = []
    renames: list[int] = []
    phrasing = log.language.phrasing
    plain: dict[tuple[str, str], tuple[str, int, Renaming]] = {}
    adapted: set[tuple[str, int]] = set()
    adapter = _Adapter(log, rules, state, step)
    for place, row in enumerate(compared.rows.tolist()):
        source = _source(log, state, row)
        key = source.action, source.answer
        if key not in plain:
            renaming = phrasing.renaming(source.action, step.action)
            if renaming is None:
                plain[key] = source.answer, OTHER, ()
            else:
                plain[key] = renamed(source.answer, renaming), RENAMED if renaming else EXACT, renaming
        text, kind, renaming = plain[key]
        texts.append(text)
        places.append(place)
        kinds.append(kind)
        renames.append(len(renaming))
        if kind == OTHER:
            continue
        adaptations = [*adapter.by_goal(row, text)]
        if place < _ADAPTED:
            adaptations += adapter.adaptations(row, source, renaming, text)
        for other, how in adaptations:
            if (other, how) not in adapted and other != text:
                adapted.add((other, how))
                texts.append(other)
                places.append(place)
                kinds.append(how)
                renames.append(len(renaming))
    at = np.array(places)
    return Candidates(tuple(texts), compared.rows[at], at, np.array(kinds), np.array(renames))


@dataclass(frozen=True, slots=True)
class OwnStep:
    """An earlier step of the episode that an answer comes from."""

    action: str
    observation: str
    answer: str


Source = LoggedStep | OwnStep
"""The step that an answer comes from."""


def _source(log: StepTable, state: EpisodeState, row: int) -> Source:
    if row >= 0:
        return log.rows[row]
    at = -1 - row
    before = state.answers[at - 1] if at else state.first_observation
    return OwnStep(state.actions[at], before, state.answers[at])


class _Adapter:
    """Answers said of one step by history, numbers and views. What was offered for a like source is not made again."""

    def __init__(self, log: StepTable, rules: EditRules, state: EpisodeState, step: StepDescription) -> None:
        self._log, self._rules, self._state, self._step = log, rules, state, step
        self._latest = latest_phrases(state)
        self._related = [(at, state.actions[at], state.answers[at]) for at in state.related(step.phrase)]
        self._moved: set[tuple[str, str, str]] = set()
        self._recalled: set[str] = set()

    def by_goal(self, row: int, text: str) -> Iterator[tuple[str, int]]:
        """The answer of a logged step that shows what its goal names, said of what ours names."""
        if row >= 0 and self._log.goal_shown[row]:
            goal = self._log.episodes[self._log.rows[row].episode].goal
            ours, settled = self._log.goal_names.renaming(goal, self._state.goal), vocabulary(self._step.action)
            renaming = tuple(pair for pair in ours if pair[0] not in settled)
            if renaming:
                yield renamed(text, renaming), BY_GOAL

    def adaptations(self, row: int, source: Source, renaming: Renaming, text: str) -> Iterator[tuple[str, int]]:
        """Other answers that `source` suggests, whose own is `text` with names exchanged, and their kinds."""
        names, state = self._step.phrase.names, self._state
        if row >= 0 and names and self._latest:
            more = history_renaming(self._log, row, self._latest, self._step, renaming)
            if len(more) > len(renaming):
                yield renamed(source.answer, more), BY_HISTORY
        key = source.observation, source.action, source.answer
        if key not in self._moved:
            self._moved.add(key)
            before = renamed(source.observation, renaming)
            for other, how in (
                (shifted(text, before, state.observation), SHIFTED),
                (between(source.answer, key[:2], (state.observation, self._step.action)), BETWEEN),
                (transferred(before, text, state.observation), TRANSFERRED),
            ):
                if other is not None and self._still_about(other, text) and self._log.language.numbers.hold(other):
                    yield other, how
        if names and text not in self._recalled:
            self._recalled.add(text)
            for view, changed in self._rules.recalled(text, state.views, self._related, self._step.phrase):
                yield view, EDITED if changed else RECALLED

    def _still_about(self, other: str, text: str) -> bool:
        """Whether a text with numbers moved names what the action names as often as `text` does."""
        names = self._step.phrase.names
        return not names or blanked(other, names).count("<") >= blanked(text, names).count("<")
