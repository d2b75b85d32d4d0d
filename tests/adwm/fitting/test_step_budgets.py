"""The step budget of a task is the length at which its episodes were cut, where they agree."""

from numbered_episodes import numbered
from workdays import BUDGETS, workdays

from worldline.adwm.fitting.log_source import MemoryLog
from worldline.adwm.fitting.survey import facts_of, survey
from worldline.adwm.model import LogFacts
from worldline.types import Trajectory


def cut(number: int, length: int, task: str) -> Trajectory:
    return numbered(number, length, task=task).model_copy(update={"terminated": False, "truncated": True})


def notes_on_cuts(log: list[Trajectory]) -> list[str]:
    return [note for note in survey(MemoryLog(log)).notes if "various lengths" in note]


def test_tasks_that_are_cut_at_their_own_lengths_have_these_budgets() -> None:
    log = workdays()
    facts = facts_of(log)
    assert {task: facts.budget(task) for task in BUDGETS} == BUDGETS
    assert facts.budget("a task that nobody logged") == facts.horizon == 6
    assert notes_on_cuts(log) == []


def test_one_budget_for_all_is_nothing_of_a_task() -> None:
    log = workdays(days=lambda task, number: 5)
    assert (facts_of(log).horizon, facts_of(log).budgets) == (5, {})
    assert notes_on_cuts(log) == []


def test_episodes_that_the_world_ended_say_nothing_of_a_budget() -> None:
    log = [numbered(n, 2 + n % 3) for n in range(9)]
    assert (facts_of(log).horizon, facts_of(log).budgets) == (4, {})
    assert notes_on_cuts(log) == []


def test_cuts_at_various_lengths_within_tasks_leave_one_budget_and_a_note() -> None:
    log = workdays(days=lambda task, number: 1 if task == "short" else BUDGETS[task] - number % 2)
    assert (facts_of(log).horizon, facts_of(log).budgets) == (6, {}), "most tasks vary, so no cut is a task's"
    assert notes_on_cuts(log) == [
        "of tasks whose logged ones were cut at various lengths, imagined episodes end at 6 steps"
    ]


def test_one_cut_episode_of_each_task_shows_no_budget() -> None:
    log = [cut(number, 3 + number, f"task {number}") for number in range(10)]
    assert (facts_of(log).horizon, facts_of(log).budgets) == (12, {})
    assert len(notes_on_cuts(log)) == 1


def test_one_task_that_varies_leaves_the_others_their_budgets() -> None:
    log = workdays(days=lambda task, number: BUDGETS[task] - (task == "middle" and number % 2))
    facts = facts_of(log)
    assert {task: facts.budget(task) for task in BUDGETS} == BUDGETS | {"middle": 6}
    assert len(notes_on_cuts(log)) == 1


def test_an_episode_that_went_on_for_longer_refutes_a_budget() -> None:
    log = [cut(0, 3, "a"), cut(1, 3, "a"), numbered(2, 5, task="a"), *(cut(n, 8, "b") for n in range(3, 9))]
    assert facts_of(log).budget("a") == 8
    assert len(notes_on_cuts(log)) == 1


def test_facts_that_were_written_before_budgets_were_read_have_none() -> None:
    old = facts_of(workdays()).model_dump(exclude={"budgets"})
    assert LogFacts.model_validate(old).budget("short") == 6
