"""Values by group against estimates on the group alone; heterogeneity against its distribution."""

import numpy as np
import pytest
from goal_seekers import GoalSeeker, Write
from scipy import stats

from worldline.evaluate import EvaluateConfig, evaluate, views
from worldline.evaluate.breakdown import ended_row, heterogeneity
from worldline.evaluate.result_parts import DifferenceResult, Estimate, GroupResult
from worldline.types import Trajectory


def group(value: float, error: float) -> GroupResult:
    half = error * float(stats.norm.ppf(0.975))
    row = DifferenceResult(a="a", b="b", value=value, low=value - half, high=value + half, p=0.5)
    return GroupResult(group="g", episodes=9, estimates={}, difference=row)


def test_a_group_is_valued_as_if_it_were_the_log(episodes: list[Trajectory], write: Write) -> None:
    some = [t.model_copy(update={"meta": {"half": str(i % 2)}}) for i, t in enumerate(episodes[480:])]
    settings = {"estimators": ("wis",), "certificate": False}
    seekers = {"keen": GoalSeeker(2.0, "keen"), "lazy": GoalSeeker(1.2, "lazy")}
    result = evaluate(EvaluateConfig(log=(write(some),), by="half", **settings), seekers)
    assert result.breakdown is not None
    assert [(row.group, row.episodes) for row in result.breakdown.groups] == [("0", 120), ("1", 120)]
    for code, row in enumerate(result.breakdown.groups):
        alone = evaluate(EvaluateConfig(log=(write(some[code::2]),), **settings), seekers)
        for name in seekers:
            assert row.estimates[name].value == pytest.approx(alone.value(name, "wis").value)
        values = [alone.value(name, "wis").value or 0.0 for name in seekers]
        assert row.difference is not None
        sign = 1 if row.difference.a == "keen" else -1
        assert row.difference.value == pytest.approx(sign * (values[0] - values[1]))
    assert any("Cochran" in part for part in views(result) if isinstance(part, str))


def test_a_groups_intervals_end_at_a_win_and_a_loss(episodes: list[Trajectory], write: Write) -> None:
    """Groups of six episodes each: intervals of so few are wider than what a rate can be."""
    some = [t.model_copy(update={"meta": {"part": str(i % 40)}}) for i, t in enumerate(episodes[480:])]
    assert {t.episode_return for t in some} == {0.0, 1.0}
    seekers = {"keen": GoalSeeker(2.0, "keen"), "lazy": GoalSeeker(1.2, "lazy")}
    config = EvaluateConfig(log=(write(some),), by="part", estimators=("wis",), certificate=False)
    split = evaluate(config, seekers).breakdown
    assert split is not None
    differences = [row.difference for row in split.groups if row.difference is not None]
    assert differences and all(-1 <= (d.low or 0) <= (d.high or 0) <= 1 for d in differences)
    values = [each for row in split.groups for each in row.estimates.values() if each.value is not None]
    assert values and all(0 <= (e.low or 0) <= (e.high or 0) <= 1 for e in values)
    apart = group(0.5, 2.0).model_copy(update={"estimates": {"a": Estimate(value=1.0, low=0.2, high=3.0, n=9)}})
    ended = ended_row(apart, (0.0, 1.0))
    assert ended.difference is not None
    assert (ended.difference.low, ended.difference.high, ended.estimates["a"].high) == (-1.0, 1.0, 1.0)


def test_heterogeneity_is_uniform_where_groups_are_alike() -> None:
    rng = np.random.default_rng(0)
    ps = [heterogeneity([group(0.1 + e * rng.normal(), e) for e in (0.1, 0.2, 0.3, 0.1)], 0.95) for _ in range(400)]
    assert stats.kstest([p for p in ps if p is not None], "uniform").pvalue > 0.01
    differing = heterogeneity([group(0.5, 0.05), group(-0.5, 0.05)], 0.95)
    assert differing is not None
    assert differing < 1e-6
    assert heterogeneity([group(0.5, 0.05)], 0.95) is None
