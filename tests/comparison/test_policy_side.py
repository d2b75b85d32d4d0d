"""A policy's episodes by task and by group, against counts by hand and simulation."""

import numpy as np
import pytest
from scipy import stats

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
    assert summary.value == pytest.approx(3 / 4), "one task of a half and one of 1"
    assert summary.by_episode == pytest.approx(2 / 3)
    assert (summary.low, summary.high) == (0.0, 1.0), "Student's interval of two tasks is far wider"


def test_a_value_too_large_to_compare_names_its_episode() -> None:
    with pytest.raises(InputError, match="episode 'e1': its return is 1e"):
        PolicySide("a", [outcome(1, "t1", 1e200)], "return")


@pytest.mark.parametrize(
    ("tasks", "likeness", "most"), [(50, 1.0, 300), (20, 0.5, 20), (40, 2.0, 1)]
)  # two tasks with many episodes; tasks that differ much; one episode each
def test_the_interval_of_successes_holds_the_mean_over_tasks(tasks: int, likeness: float, most: int) -> None:
    """Rates of tasks are drawn from a beta distribution of mean .5: 95 % of the intervals hold it."""
    hits = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        rates, counts = rng.beta(likeness / 2, likeness / 2, tasks), np.where(np.arange(tasks) < 2, most, 1)
        rows = [(f"t{t}", float(rng.random() < rates[t])) for t in range(tasks) for _ in range(counts[t])]
        side = PolicySide("a", [outcome(k, task, won) for k, (task, won) in enumerate(rows)], "success")
        summary = side.summary(0.95, (0.0, 1.0))
        assert summary.low is not None and summary.high is not None
        hits += summary.low <= 0.5 <= summary.high
    assert hits >= 0.92 * 400, hits


def test_the_interval_of_returns_is_students_over_tasks() -> None:
    """Five episodes of one task count as one."""
    side = PolicySide("a", [outcome(k, f"t{max(0, k - 4)}", float(k)) for k in range(9)], "return")
    means = np.array([2.0, 5.0, 6.0, 7.0, 8.0])
    limits = stats.ttest_1samp(means, 0.0).confidence_interval(0.95)
    summary = side.summary(0.95, None)
    assert (summary.value, summary.by_episode) == (pytest.approx(means.mean()), pytest.approx(4.0))
    assert (summary.low, summary.high) == (pytest.approx(limits.low), pytest.approx(limits.high))
