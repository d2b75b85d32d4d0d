"""What the world may answer to a step: answers of logged steps and of this episode, adapted to this action and moment.

Each of the rows that are compared with the step offers its answer as it is, with names exchanged (the action's, those
of earlier actions, the goal's), with numbers moved, or with what this episode has shown before in its place: where it
repeats an earlier answer, that of this episode. Which of these is right is for the gate to learn; nothing else can be
answered.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.kernel.analogies import transferred
from worldline.kernel.compared_rows import ComparedRows
from worldline.kernel.edits import EditRules
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.goals import aligned
from worldline.kernel.number_model import ComputedNumbers
from worldline.kernel.numerals import between, numbered, shifted
from worldline.kernel.phrases import Renaming, blanked, renamed
from worldline.kernel.renamings import history_renaming, latest_phrases
from worldline.kernel.step_table import LoggedStep, Rows, StepTable
from worldline.kernel.words import vocabulary

KINDS = (
    "exact",
    "renamed",
    "other",
    "renamed by history",
    "renamed by goal",
    "renamed by its place in the goal",
    "shifted",
    "between",
    "transferred",
    "transferred over other words",
    "computed",
    "recalled",
    "edited",
)
EXACT, RENAMED, OTHER, BY_HISTORY, BY_GOAL, BY_PLACE, SHIFTED, BETWEEN, *_LAST = range(len(KINDS))
TRANSFERRED, REPLACED, COMPUTED, RECALLED, EDITED = _LAST
_ADAPTED = 20
"""Of the compared rows, the first so many are also adapted by history, numbers and views, and by places of goals."""


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


def candidates(
    log: StepTable,
    rules: EditRules,
    state: EpisodeState,
    step: StepDescription,
    compared: ComparedRows,
    numbers: ComputedNumbers,
    own: int = -1,
) -> Candidates:
    """Everything the world may answer to `step`; `own` is the logged episode that it belongs to, -1: none."""
    texts: list[str] = []
    places: list[int] = []
    kinds: list[int] = []
    renames: list[int] = []
    phrasing = log.language.phrasing
    plain: dict[tuple[str, str], tuple[str, int, Renaming]] = {}
    adapted: set[tuple[str, int]] = set()
    adapter = _Adapter(log, rules, state, step, own)
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
        adaptations = adapter.by_goal(row, text) if row >= 0 and log.goal_shown[row] else []
        if row >= 0 and (place < _ADAPTED or log.given_shown[row]):
            adaptations += adapter.by_place(row, text)
        if (computed := numbers.adapted(text, row)) is not None:
            adaptations.append((computed, COMPUTED))
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
    """Answers adapted to one step by history, numbers and views. What a like source offered is not made again."""

    def __init__(self, log: StepTable, rules: EditRules, state: EpisodeState, step: StepDescription, own: int) -> None:
        self._log, self._rules, self._state, self._step, self._own = log, rules, state, step, own
        self._latest = latest_phrases(state)
        self._related = [(at, state.actions[at], state.answers[at]) for at in state.related(step.phrase)]
        self._moved: set[tuple[str, str, str]] = set()
        self._recalled: set[str] = set()
        self._goals: dict[str, Renaming] = {}
        self._places: dict[str, Renaming] = {}

    def by_goal(self, row: int, text: str) -> list[tuple[str, int]]:
        """The answer of a logged step that shows what its goal names, adapted to what ours names."""
        goal = self._log.episodes[self._log.rows[row].episode].goal
        renaming = self._goals.get(goal)
        if renaming is None:
            ours, settled = self._log.goal_names.renaming(goal, self._state.goal), vocabulary(self._step.action)
            renaming = self._goals[goal] = tuple(pair for pair in ours if pair[0] not in settled)
        words = vocabulary(text) if renaming else frozenset()
        there = tuple(pair for pair in renaming if pair[0] in words)
        return [(renamed(text, there), BY_GOAL)] if there else []

    def by_place(self, row: int, text: str) -> list[tuple[str, int]]:
        """The answer of a logged step with what our goal has in the place of what the other goal has."""
        renaming = self._by_place(self._log.episodes[self._log.rows[row].episode].goal)
        return [(renamed(text, renaming), BY_PLACE)] if renaming else []

    def adaptations(self, row: int, source: Source, renaming: Renaming, text: str) -> Iterator[tuple[str, int]]:
        """Other answers that `source` suggests, whose own is `text` with names exchanged, and their kinds."""
        names, state = self._step.phrase.names, self._state
        if row >= 0 and self._latest:
            more = history_renaming(self._log, row, self._latest, self._step, renaming)
            if len(more) > len(renaming):
                yield renamed(source.answer, more), BY_HISTORY
        if row >= 0 and (again := self._repeated(row)) is not None:
            yield again, RECALLED
        key = source.observation, source.action, source.answer
        if key not in self._moved:
            self._moved.add(key)
            before = renamed(source.observation, renaming)
            for other, how in (
                (shifted(text, before, state.observation), SHIFTED),
                (between(source.answer, key[:2], (state.observation, self._step.action)), BETWEEN),
            ):
                if other is not None and self._still_about(other, text) and self._log.language.numbers.hold(other):
                    yield other, how
            transfer = transferred(before, text, state.observation)
            if transfer is not None and self._still_about(transfer.text, text) and self._holds(transfer.text, text):
                yield transfer.text, REPLACED if transfer.replaced else TRANSFERRED
        if names and text not in self._recalled:
            self._recalled.add(text)
            for view, changed in self._rules.recalled(text, state.views, self._related, self._step.phrase, self._own):
                yield view, EDITED if changed else RECALLED

    def _holds(self, other: str, text: str) -> bool:
        """Whether numbers of a changed text are in the range of its wording, or all of them have been seen."""
        ranges, state = self._log.language.numbers, self._state
        if ranges.words(other):
            return ranges.hold(other)
        seen = numbered(text).numbers, numbered(state.observation).numbers, numbered(self._step.action).numbers
        return set(numbered(other).numbers) <= set(itertools.chain(*seen))

    def _repeated(self, row: int) -> str | None:
        """Where a logged answer repeats an earlier one, what this episode had last in the place of that one."""
        step = int(self._log.repeated[row])
        if step == -1:
            return self._state.first_observation
        if step < 0:
            return None
        skeleton = self._log.phrases[row - self._log.rows[row].step + step].skeleton
        steps = self._state.steps_of.get(skeleton)
        return self._state.answers[steps[-1]] if steps else None

    def _by_place(self, goal: str) -> Renaming:
        """What a like-worded goal names to what ours names in its place, but for common words and the action's own."""
        renaming = self._places.get(goal)
        if renaming is None:
            rare, own = self._log.language.rare, vocabulary(self._step.action)
            ours, log = self._state.goal, self._log
            pairs = aligned(goal, ours)
            if not pairs and not log.goal_names.renaming(goal, ours):
                pairs = log.language.phrasing.goal_words.in_order(goal, ours)
            renaming = self._places[goal] = tuple(
                (old, new) for old, new in pairs if any(word not in own and rare(word) for word in vocabulary(old))
            )
        return renaming

    def _still_about(self, other: str, text: str) -> bool:
        """Whether a text with numbers moved names what the action names as often as `text` does."""
        names = self._step.phrase.names
        return not names or blanked(other, names).count("<") >= blanked(text, names).count("<")
