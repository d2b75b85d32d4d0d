"""A policy's episodes by task and by group, against counts by hand."""

import pytest

from worldline.comparison.outcomes import EpisodeOutcome
from worldline.comparison.policy_side import PolicySide
from worldline.types import InputError


def outcome(number: int, task: str, won: float | None, group: str = "", policy: str = "a") -> EpisodeOutcome:
    return EpisodeOutcome(f"e{number}", "env", task, policy, won, won, None, number, None, group)


EPISODES = [
    outcome(1, "t1", 1.0, "x"),
    outcome(2, "t1", 0.0, "y"),
    outcome(3, "t2", 1.0, "y"),
    outcome(4, "t2", None),
    outcome(5, "t1", 1.0, "x", policy="b"),
]


def test_its_own_episodes_with_an_outcome_are_averaged_by_task() -> None:
    side = PolicySide("a", EPISODES, "success")
    assert side.unknown == 1
    assert side.means([("env", "t1"), ("env", "t2")]).tolist() == [0.5, 1.0]
    assert side.means([("env", "t1")], "steps").tolist() == [1.5]
    assert side.names(("env", "t1")) == ("e1", "e2")


def test_episodes_of_one_task_may_be_of_several_groups() -> None:
    groups = PolicySide("a", EPISODES, "success").groups()
    assert {name: group.values for name, group in groups.items()} == {"x": [1.0], "y": [0.0, 1.0]}


def test_a_summary_counts_tasks_and_episodes_and_ends_where_outcomes_do() -> None:
    summary = PolicySide("a", EPISODES, "return").summary(0.95, (0.0, 1.0))
    assert (summary.episodes, summary.tasks, summary.unknown) == (4, 2, 1)
    assert summary.value == pytest.approx(2 / 3)
    assert (summary.low, summary.high) == (0.0, 1.0), "Student's interval of two tasks is far wider"


def test_a_value_too_large_to_compare_names_its_episode() -> None:
    with pytest.raises(InputError, match="episode 'e1': its return is 1e"):
        PolicySide("a", [outcome(1, "t1", 1e200)], "return")
