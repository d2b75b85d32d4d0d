"""Values by group against estimates on the group alone; heterogeneity against its distribution."""

import numpy as np
import pytest
from goal_seekers import GoalSeeker, Write
from scipy import stats

from worldline.bench.small_mdp import KINDS
from worldline.evaluate import EvaluateConfig, evaluate, views
from worldline.evaluate.breakdown import breakdown, ended_row, heterogeneity
from worldline.evaluate.judgement import IntervalSettings, judged
from worldline.evaluate.result_parts import DifferenceResult, Estimate, GroupResult
from worldline.ope.estimation import ESTIMATORS, Doubt, Estimator, EstimatorInput
from worldline.ope.names import Coded
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


def two_candidates(seed: int) -> tuple[dict[str, EstimatorInput], dict[str, float], Coded]:
    """A log of 200 episodes, the exact values of two candidates, and halves of it that differ by nothing."""
    situation = KINDS["good"](np.random.default_rng([5, seed]), 200)
    played = situation.played
    plain = EstimatorInput(situation.log, 1.0, text=played.features)
    inputs = {name: plain.aimed(played.target(situation.candidates[name])) for name in list(situation.candidates)[:2]}
    halves = np.random.default_rng(seed).permutation(200) % 2
    return inputs, situation.truth, Coded(halves, ("one", "other"))


def test_groups_that_do_not_differ_are_found_to_differ_as_often_as_is_due() -> None:
    """Random halves, valued by fitted Q whose features are poor: without the error of the fit, Q rejected .28 of them,
    and half of the groups' intervals missed."""
    how = IntervalSettings(replicates=100)
    rejected, held = [], []
    for seed in range(40):
        inputs, truth, halves = two_candidates(seed)
        judgements = {label: judged(each, ["lfqe"], ESTIMATORS, how) for label, each in inputs.items()}
        split = breakdown("half", halves, "lfqe", inputs, judgements, how)
        rejected.append(split.p is not None and split.p < 0.05)
        for row in split.groups:
            assert row.difference is not None and row.difference.low is not None and row.difference.high is not None
            exact = truth[row.difference.a] - truth[row.difference.b]
            held.append(row.difference.low <= exact <= row.difference.high)
    assert np.mean(rejected) <= 0.15
    assert np.mean(held) >= 0.88


def test_the_error_of_a_world_model_is_that_of_its_groups() -> None:
    """A model that may err by .2 on every value: by sqrt(2 x .9) x .2 on the difference of two, in each group."""
    inputs, _, halves = two_candidates(0)
    rng, how = np.random.default_rng(0), IntervalSettings()
    judgements = {}
    for label, each in inputs.items():
        imagined = rng.normal(0.5, 0.1, size=200)
        model = Estimator(lambda log, gamma, own=imagined: own, doubt=lambda: Doubt(0.2))
        judgements[label] = judged(each, ["wm"], {**ESTIMATORS, "wm": model}, how)
    split = breakdown("half", halves, "wm", inputs, judgements, how)
    least = float(stats.norm.ppf(0.975)) * 0.2
    for row in split.groups:
        assert row.difference is not None
        d = row.difference
        assert (d.high or 0) - (d.low or 0) == pytest.approx(2 * least * np.sqrt(1.8), rel=0.02)
        for estimate in row.estimates.values():
            assert (estimate.high or 0) - estimate.value >= least * 0.99
