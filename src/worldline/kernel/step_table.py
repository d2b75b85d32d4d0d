"""The steps of a log as rows: described, and indexed by what they share with a new step."""

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from worldline.kernel.episode_state import COLUMNS, Codes, EpisodeState, StepDescription
from worldline.kernel.goals import GoalNames
from worldline.kernel.language import Language, code, idle_wordings, own_words, recurring_numbers
from worldline.kernel.numerals import NumberRanges
from worldline.kernel.paths import Moves
from worldline.kernel.phrases import Phrase, Phrasing
from worldline.kernel.repeats import Repeats
from worldline.kernel.shared_facts import WHOLE, Fact, Records, SharedFacts, TaskRecords, part_of
from worldline.kernel.vectors import Array, TextTable, WordWeights
from worldline.kernel.words import vocabulary
from worldline.types import Trajectory

Rows = npt.NDArray[np.int64]
LeftOut = npt.NDArray[np.bool_] | None
"""The rows of a log that say nothing to a step; None: all do."""
COLUMN = {name: at for at, name in enumerate(COLUMNS)}
CONTEXTS = {
    "history": 48,
    "path": 48,
    "deeds": 48,
    "task, observation, action": 48,
    "observation, action": 96,
    "task, action": 48,
    "action": 128,
    "task, skeleton": 64,
    "skeleton": 128,
    "task": 96,
    "any": 256,
}
"""Where rows are looked for, and how many are looked at in each. Bounded, so a step costs the same in a larger log."""
LAST_RESORTS = 2
"""Of these, the last ones, for where the others have few."""

FOLDS = 2


def fold_of(episode: int) -> int:
    """The fold of a logged episode. As good as by chance: the policies of a log may take turns."""
    return (episode * 2654435761 >> 12) % FOLDS


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """One logged step and what followed it."""

    episode: int
    step: int
    observation: str
    action: str
    answer: str
    reward: float
    ended: bool
    success: bool
    listed: tuple[str, ...] | None
    """The actions that were listed before the step; below, after it."""
    listed_after: tuple[str, ...] | None


@dataclass(frozen=True)
class StepTable:
    """All steps of a log, in its order."""

    language: Language
    episodes: tuple[Trajectory, ...]
    rows: tuple[LoggedStep, ...]
    phrases: tuple[Phrase, ...]
    """The action of each row."""
    codes: Codes
    """(N, len(COLUMNS))"""
    memory: Array
    deeds: Array
    proportions: Array
    numbers: tuple[float | None, ...]
    """The number that each action is about."""
    relations: tuple[frozenset[int], ...]
    skeletons: Rows
    """A code of each action's skeleton; below, of the sort of its answer."""
    sorts: Rows
    happenings: tuple[str, ...]
    """What each step was, and how it was answered."""
    goal_names: GoalNames
    goal_shown: npt.NDArray[np.bool_]
    """Whether each answer shows a name of the goal that the action has not."""
    given_shown: npt.NDArray[np.bool_]
    """Whether each answer shows a word that its goal gives and no action of the log has."""
    repeated: Rows
    """The earlier step of its episode whose answer each row repeats; -1: what was shown first, -2: none or the last."""
    task_records: TaskRecords
    episode_of: Rows
    policy_of: Rows
    """The number of the policy that made each row."""
    first_row: Rows
    """The row of each episode's first step."""
    _contexts: dict[str, dict[tuple[int, ...], Rows]]

    @classmethod
    def of(cls, episodes: Sequence[Trajectory]) -> "StepTable":
        weights = WordWeights(_texts(episodes))
        seen = NumberRanges(text for e in episodes for text in (e.steps[0].observation, *e.next_observations))
        phrasing, tables = Phrasing.of(episodes), (TextTable(weights), TextTable(weights))
        recurring, repeats = recurring_numbers(episodes, phrasing), Repeats.of(episodes)
        idle, refused = idle_wordings(episodes, phrasing, repeats.unchanged)
        moves = Moves.of(episodes, repeats.idle, repeats.nothing)
        skeletons = {phrasing.parse(step.action).skeleton for episode in episodes for step in episode.steps}
        deed_words = frozenset(word for skeleton in skeletons for word in vocabulary(skeleton))
        words = deed_words, own_words(episodes)
        language = Language(phrasing, weights, *tables, seen, moves, recurring, idle, refused, *words)
        facts = [[*_facts_of_steps(language, episode)] for episode in episodes]
        shared = SharedFacts([itertools.chain(*steps) for steps in facts], [episode.task_id for episode in episodes])
        language = replace(language, shared_facts=shared)
        goal_names = GoalNames(episodes, phrasing)
        rows: list[LoggedStep] = []
        described: list[StepDescription] = []
        happenings: list[str] = []
        numbers: list[float | None] = []
        for number, episode in enumerate(episodes):
            for state, description, row in replay(language, episode, number):
                rows.append(row)
                described.append(description)
                numbers.append(state.bids.about(description.phrase, description.action))
                happenings.append(state.happening(description, row.answer))
        episode_of = np.array([row.episode for row in rows])
        contexts: dict[str, dict[tuple[int, ...], list[int]]] = {name: defaultdict(list) for name in CONTEXTS}
        for at, description in enumerate(described):
            for name, key in _keys(description):
                contexts[name][key].append(at)
        distinct: dict[frozenset[int], frozenset[int]] = {}
        rng = np.random.default_rng(0)  # the same rows are looked at whenever the log is read again
        return cls(
            language,
            tuple(episodes),
            tuple(rows),
            tuple(description.phrase for description in described),
            np.stack([description.codes for description in described]),
            np.stack([description.memory for description in described]),
            np.stack([description.deeds for description in described]),
            np.array([description.proportion for description in described], np.float32),
            tuple(numbers),
            tuple(distinct.setdefault(one.relations, one.relations) for one in described),
            np.array([code(description.phrase.skeleton) for description in described]),
            np.array([code(language.sort(row.answer, one.phrase)) for row, one in zip(rows, described, strict=True)]),
            tuple(happenings),
            goal_names,
            np.array([goal_names.shows(episodes[row.episode].goal, row.action, row.answer) for row in rows], bool),
            np.array([goal_names.shows_given(episodes[row.episode].goal, row.answer) for row in rows], bool),
            np.concatenate([_repeated(episode) for episode in episodes]),
            TaskRecords(shared, [episodes[row.episode].task_id for row in rows], [*itertools.chain(*facts)]),
            episode_of,
            np.unique([episode.policy for episode in episodes], return_inverse=True)[1][episode_of],
            np.searchsorted(episode_of, np.arange(len(episodes))),
            {
                name: {key: rng.permutation(np.array(members)) for key, members in table.items()}
                for name, table in contexts.items()
            },
        )

    def __len__(self) -> int:
        return len(self.rows)

    @functools.cached_property
    def shuffled(self) -> list[int]:
        """The rows in any order, the same one whenever the log is read again."""
        order: list[int] = np.random.default_rng(0).permutation(len(self.rows)).tolist()
        return order

    def replay(self, number: int) -> Iterator[tuple[EpisodeState, StepDescription, LoggedStep]]:
        """Each step of an episode of the log, as `replay` has it: nothing is described anew."""
        episode, first = self.episodes[number], int(self.first_row[number])
        start = self.rows[first]
        state = EpisodeState(self.language, episode.task_id, episode.goal, start.observation, start.listed)
        for at in range(first, first + len(episode)):
            row, proportion = self.rows[at], float(self.proportions[at])
            codes, memory, deeds = self.codes[at], self.memory[at], self.deeds[at]
            description = StepDescription(
                row.action, self.phrases[at], codes, self.relations[at], memory, deeds, proportion
            )
            yield state, description, row
            state.advance(description, row.answer, row.reward, row.listed_after)

    def records(self, state: EpisodeState, left_out: LeftOut, own: int) -> Records:
        """Of an episode and its task, less the rows left out; `own` is its number in the log, -1: none."""
        part = part_of(own)
        of_episode = state.record if part == WHOLE else self.language.shared_facts.record(state.evidence, part)
        return Records(of_episode, self.task_records.of(state.task, left_out, part))

    def contexts(self, description: StepDescription) -> list[Rows]:
        """For each of CONTEXTS, the rows that share it with the step."""
        return [self._contexts[name].get(key, _NO_ROWS) for name, key in _keys(description)]


_NO_ROWS: Rows = np.zeros(0, np.int64)


def _keys(description: StepDescription) -> Iterator[tuple[str, tuple[int, ...]]]:
    codes = description.codes.tolist()
    task, observation, action = codes[COLUMN["task"]], codes[COLUMN["observation"]], codes[COLUMN["action"]]
    skeleton = code(description.phrase.skeleton)
    yield "history", (codes[COLUMN["history"]],)
    yield "path", (codes[COLUMN["path"]],)
    yield "deeds", (codes[COLUMN["deeds"]],)
    yield "task, observation, action", (task, observation, action)
    yield "observation, action", (observation, action)
    yield "task, action", (task, action)
    yield "action", (action,)
    yield "task, skeleton", (task, skeleton)
    yield "skeleton", (skeleton,)
    yield "task", (task,)
    yield "any", ()


def replay(
    language: Language, episode: Trajectory, number: int
) -> Iterator[tuple[EpisodeState, StepDescription, LoggedStep]]:
    """Each step of an episode: the state before it, its description, and what followed."""
    first = episode.steps[0]
    state = EpisodeState(language, episode.task_id, episode.goal, first.observation, first.admissible)
    answers = episode.next_observations
    for at, step in enumerate(episode.steps):
        last = at + 1 == len(episode)
        after = None if last else episode.steps[at + 1].admissible
        ended = last and episode.terminated
        row = LoggedStep(
            number,
            at,
            step.observation,
            step.action,
            answers[at],
            step.reward,
            ended,
            bool(ended and episode.success),
            step.admissible,
            after,
        )
        description = state.describe(step.action)
        yield state, description, row
        state.advance(description, answers[at], step.reward, after)


def _facts_of_steps(language: Language, episode: Trajectory) -> Iterator[list[Fact]]:
    for step, answer in zip(episode.steps, episode.next_observations, strict=True):
        phrase = language.phrasing.parse_in(episode.goal, step.action)
        yield language.facts_of_step(step.action, answer, phrase, step.reward)


def _repeated(episode: Trajectory) -> Rows:
    """The latest earlier step that had the answer of each step, as `StepTable.repeated` has it."""
    latest = {episode.steps[0].observation: -1}
    out = np.full(len(episode), -2)
    for step, (shown, answer) in enumerate(zip(episode.steps, episode.next_observations, strict=True)):
        if answer != shown.observation:
            out[step] = latest.get(answer, -2)
        latest[answer] = step
    return out


def _texts(episodes: Sequence[Trajectory]) -> Iterator[str]:
    for episode in episodes:
        yield episode.goal
        yield episode.final_observation
        for step in episode.steps:
            yield step.observation
            yield step.action
