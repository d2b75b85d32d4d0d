import numpy as np
import pytest
from written_logs import lamps, left_of, state_after

from worldline.kernel.model import KernelModel
from worldline.kernel.paths import START
from worldline.kernel.step_table import COLUMN, CONTEXTS, StepTable, replay
from worldline.types import Trajectory


@pytest.fixture(scope="module")
def log() -> list[Trajectory]:
    return lamps(12, seed=4)


@pytest.fixture(scope="module")
def table(log: list[Trajectory]) -> StepTable:
    return StepTable.of(log)


def test_rows_are_the_steps_in_the_order_of_the_log(table: StepTable, log: list[Trajectory]) -> None:
    steps = [(n, at, e) for n, e in enumerate(log) for at in range(len(e))]
    assert len(table) == len(steps)
    for row, (number, at, logged) in zip(table.rows, steps, strict=True):
        step, last = logged.steps[at], at + 1 == len(logged)
        assert (row.episode, row.step, row.observation, row.action) == (number, at, step.observation, step.action)
        assert (row.answer, row.reward) == (logged.next_observations[at], step.reward)
        assert row.ended == (last and logged.terminated)
        assert row.listed_after == (None if last else logged.steps[at + 1].admissible)
    assert table.first_row.tolist() == np.cumsum([0, *(len(e) for e in log[:-1])]).tolist()


def test_contexts_are_found_as_a_search_through_the_log_finds_them(table: StepTable, log: list[Trajectory]) -> None:
    """Each row's contexts, against a comparison with every other row."""
    pasts = [
        (e.steps[0].observation, *((s.action, a) for s, a in zip(e.steps[:at], e.next_observations, strict=False)))
        for e in log
        for at in range(len(e))
    ]
    tasks = [log[row.episode].task_id for row in table.rows]
    paths = []
    for e in log:
        path = START
        for step, answer in zip(e.steps, e.next_observations, strict=True):
            paths.append((e.task_id, left_of(path), step.action))
            path = table.language.moves.after(path, step.action, answer)
    for number, logged in enumerate(log):
        for _, description, row in replay(table.language, logged, number):
            mine = int(table.first_row[number]) + row.step
            keys = [
                [(past, other.action) for past, other in zip(pasts, table.rows, strict=True)],
                paths,
                [(task, tuple(sorted(path)), action) for task, path, action in paths],
                [(task, other.observation, other.action) for task, other in zip(tasks, table.rows, strict=True)],
                [(other.observation, other.action) for other in table.rows],
                [(task, other.action) for task, other in zip(tasks, table.rows, strict=True)],
                [other.action for other in table.rows],
                [(task, other.action) for task, other in zip(tasks, table.rows, strict=True)],  # no names: as worded
                [other.action for other in table.rows],
                tasks,
                [0 for _ in table.rows],
            ]
            for name, key, rows in zip(CONTEXTS, keys, table.contexts(description), strict=True):
                assert sorted(rows.tolist()) == [at for at, k in enumerate(key) if k == key[mine]], name  # type: ignore[index]  # keys of several types


def test_a_step_that_the_log_has_not_shares_its_task_alone(table: StepTable, log: list[Trajectory]) -> None:
    model = KernelModel(log)
    state = state_after(model, log[0], 0)
    sizes = dict(zip(CONTEXTS, map(len, model.log.contexts(state.describe("xyzzy"))), strict=True))
    of_task = sum(log[row.episode].task_id == log[0].task_id for row in table.rows)
    assert sizes == dict.fromkeys(CONTEXTS, 0) | {"task": of_task, "any": len(table)}


def test_a_replayed_description_is_that_of_its_row(table: StepTable, log: list[Trajectory]) -> None:
    for number, logged in enumerate(log):
        for _, description, row in replay(table.language, logged, number):
            at = int(table.first_row[number]) + row.step
            assert (table.codes[at] == description.codes).all()
            assert (table.memory[at] == description.memory).all()
            assert table.relations[at] == description.relations
            assert table.codes[at][COLUMN["step"]] == row.step


def test_an_episode_of_the_log_is_replayed_as_it_was_described(table: StepTable, log: list[Trajectory]) -> None:
    for number, logged in enumerate(log):
        steps = zip(table.replay(number), replay(table.language, logged, number), strict=True)
        for (state, description, row), (described_state, described, described_row) in steps:
            assert row == described_row
            assert (state.observation, state.listed) == (described_state.observation, described_state.listed)
            assert (description.action, description.phrase) == (described.action, described.phrase)
            assert description.relations == described.relations
            assert description.proportion == pytest.approx(described.proportion, nan_ok=True)
            for mine, other in (
                (description.codes, described.codes),
                (description.memory, described.memory),
                (description.deeds, described.deeds),
                (state.describe("xyzzy").codes, described_state.describe("xyzzy").codes),
            ):
                assert (mine == other).all()
