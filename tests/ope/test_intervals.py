"""Intervals: the vectorised bootstrap against a loop, closed forms, coverage of exact values."""

import numpy as np
import pytest
from scipy import stats
from tabular_world import TabularWorld

from worldline.ope import estimators as e
from worldline.ope import intervals as module
from worldline.ope.intervals import (
    Interval,
    bootstrap_means,
    error_by,
    interval,
    intervals,
    task_units,
    two_outcomes,
    widened,
    within,
)
from worldline.ope.weights import cumulative, log_ratios


def test_bootstrap_spread_is_that_of_resampling_whole_tasks() -> None:
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(60), rng.integers(1, 6, size=60))
    values = rng.normal(size=60)[tasks] + 0.1 * rng.normal(size=len(tasks))
    slow = []
    for _ in range(3000):
        drawn = rng.integers(0, 60, size=60)
        slow.append(np.concatenate([values[tasks == task] for task in drawn]).mean())
    fast = bootstrap_means(values[:, None], tasks, 3000, seed=1)[:, 0]
    assert fast.std() == pytest.approx(np.std(slow), rel=0.08)
    assert fast.mean() == pytest.approx(values.mean(), abs=0.02)
    as_if_independent = bootstrap_means(values[:, None], np.arange(len(values)), 3000, seed=1)[:, 0]
    assert fast.std() > 1.3 * as_if_independent.std()


def test_limits_do_not_depend_on_how_a_sum_was_rounded() -> None:
    """Many resamples of few values are the mean itself; rounding moves them to either side of it."""
    rng = np.random.default_rng(0)
    resampled = rng.integers(0, 7, size=(400, 1)) / 6
    means, skew = np.array([0.5]), np.array([0.1])
    exact = module.bias_corrected(resampled, means, skew, 0.025)
    rounded = resampled + rng.choice([-1e-16, 1e-16], size=resampled.shape)
    assert (rounded != resampled).any()
    np.testing.assert_allclose(module.bias_corrected(rounded, means, skew, 0.025), exact, atol=1e-12)


def test_an_interval_holds_its_own_estimate() -> None:
    """Also of values that are all alike but for rounding: their resamples all lie on one side of the mean."""
    rng = np.random.default_rng(0)
    for seed in range(60):
        tasks = rng.integers(0, 60, size=360)
        values = -0.02 * (1 + 1e-15 * rng.integers(-2, 3, size=360)) if seed % 2 else rng.lognormal(0, 4, size=360)
        for method in ("bootstrap", "student-t"):
            made = interval(values, tasks, method, replicates=50, seed=seed)
            assert made.low is not None
            assert made.high is not None
            assert made.low <= made.value <= made.high


def test_units_have_the_mean_of_the_values() -> None:
    rng = np.random.default_rng(0)
    tasks = rng.integers(0, 7, size=50)
    values = rng.normal(size=(50, 3))
    np.testing.assert_allclose(task_units(values, tasks).mean(axis=0), values.mean(axis=0), atol=1e-12)


def test_grouping_many_tasks_keeps_the_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).exponential(size=(20_000, 1))
    tasks = np.arange(20_000)
    grouped = bootstrap_means(values, tasks, 1000, seed=0).std()
    monkeypatch.setattr(module, "MOST_UNITS", 20_000)
    assert grouped == pytest.approx(bootstrap_means(values, tasks, 1000, seed=0).std(), rel=0.1)


def test_student_t_is_scipys() -> None:
    values = np.random.default_rng(0).normal(size=30)
    got = interval(values, np.arange(30), "student-t", confidence=0.9)
    low, high = stats.t.interval(0.9, 29, loc=values.mean(), scale=stats.sem(values))
    assert (got.low, got.high, got.n) == (pytest.approx(low), pytest.approx(high), 30)


def test_enormous_values_do_not_overflow() -> None:
    values = np.array([1e250, 0.0, 3e249, 1.0])
    for method in ("bootstrap", "student-t"):
        got = interval(values, np.arange(4), method)
        assert got.low is not None
        assert got.high is not None
        assert np.isfinite([got.value, got.low, got.high]).all()


def test_one_episode_has_no_interval() -> None:
    got = interval(np.array([0.5]), np.array([0]))
    assert (got.value, got.low, got.high, got.n) == (0.5, None, None, 1)


def test_columns_share_their_resamples() -> None:
    values = np.random.default_rng(0).normal(size=(100, 1))
    means = bootstrap_means(np.hstack([values, values + 1]), np.arange(100), 50, seed=3)
    np.testing.assert_allclose(means[:, 1] - means[:, 0], 1)


@pytest.mark.parametrize(("n", "sigma"), [(40, 0.7), (200, 0.9)])
def test_the_interval_of_few_skewed_values_is_long_enough(n: int, sigma: float) -> None:
    """Lognormal weights of mean 1: BCa alone covers .90, which is too little where nothing warns."""
    rng = np.random.default_rng(n)
    hits = []
    for seed in range(300):
        limits = interval(rng.lognormal(-(sigma**2) / 2, sigma, size=n), np.arange(n), replicates=400, seed=seed)
        hits.append((limits.low or 0) <= 1 <= (limits.high or 0))
    assert 0.93 <= np.mean(hits) <= 0.99


def test_interval_covers_the_exact_value() -> None:
    """Over 200 simulated logs the 95 % bootstrap interval of PDIS and DR covers the exact value 90-98 % of the time."""
    world = TabularWorld.random(5, states=4, tasks=2000, horizon=5)
    behaviour = world.policy(1)
    target = world.mixed(world.policy(2), 0.3)
    exact = world.value(target, 1.0)
    q = world.values(target, 1.0)[0] + np.random.default_rng(0).normal(0, 0.3, size=(5, 4, 4))
    hits = np.zeros(2)
    for seed in range(200):
        log = world.play(behaviour, 800, seed, drawn_tasks=200)
        flat = log.ragged
        weights = cumulative(log_ratios(flat, log.target(target)), flat.offsets)
        value = e.Value(*log.at(q, (q * target).sum(axis=2)))
        columns = [e.per_decision(flat, 1.0, weights), e.doubly_robust(flat, 1.0, weights, value)]
        for k, limits in enumerate(intervals(np.stack(columns, axis=1), flat.tasks, replicates=400, seed=seed)):
            assert limits.low is not None
            assert limits.high is not None
            hits[k] += limits.low <= exact <= limits.high
    assert ((hits / 200 >= 0.90) & (hits / 200 <= 0.98)).all(), hits / 200


@pytest.mark.parametrize("instances", [1, 2, 5])
def test_an_error_known_by_few_instances_covers_the_next_one(instances: int) -> None:
    """Normal errors of unknown size: an interval widened by the first few holds the next as often as it says."""
    rng = np.random.default_rng(instances)
    errors = rng.normal(0.0, 0.3, (20_000, instances + 1))
    inside = 0
    for *before, error in errors.tolist():
        limits = widened(Interval(error, error, error, 1), error_by(before, 0.9), 0.9)
        inside += (limits.low or 0) <= 0 <= (limits.high or 0)
    assert inside / len(errors) == pytest.approx(0.9, abs=0.01)
    assert error_by([], 0.9) == 0.0


def test_the_limit_that_there_is_is_widened() -> None:
    """3 and 4 make 5; a limit that is not there stays away."""
    error = 4 / stats.norm.ppf(0.95)
    assert widened(Interval(10.0, 7.0, None, 9), error, 0.9) == Interval(10.0, pytest.approx(5.0), None, 9)
    assert widened(Interval(10.0, None, 13.0, 9), error, 0.9) == Interval(10.0, None, pytest.approx(15.0), 9)
    assert widened(Interval(10.0, None, None, 1), error, 0.9) == Interval(10.0, None, None, 1)


def test_no_interval_goes_beyond_a_win_and_a_loss() -> None:
    wins = two_outcomes(np.tile([0.0, 1.0], 5))
    assert wins == (0.0, 1.0)
    assert within(Interval(0.9, 0.4, 1.3, 4), wins) == Interval(0.9, 0.4, 1.0, 4)
    assert within(Interval(0.1, -0.4, 0.5, 4), wins) == Interval(0.1, 0.0, 0.5, 4)
    assert within(Interval(0.5, None, None, 1), wins) == Interval(0.5, None, None, 1)
    beyond = Interval(1.2, 0.4, 1.9, 4)
    assert within(beyond, wins) is beyond, "an estimate of weights may lie there itself"
    wide = Interval(0.9, -0.4, 1.3, 4)
    assert within(wide, two_outcomes(np.tile([0.0, 0.5, 1.0], 5))) is wide, "of three values the log may lack a fourth"
    assert two_outcomes(np.ones(30)) is None
    assert two_outcomes(np.array([0.2, 0.7])) is None, "two grades of many"
    assert two_outcomes(np.append(np.zeros(30), 0.3)) is None, "one that was not 0 so far"


def test_a_small_truth_beside_a_small_interval_is_missed() -> None:
    assert Interval(2e-10, 1e-10, 3e-10, 9).covers(4e-10) is False
    assert Interval(2e-10, 1e-10, 3e-10, 9).covers(3e-10 * (1 + 1e-12)) is True


@pytest.mark.parametrize("tasks", [2, 3])
def test_few_tasks_have_students_intervals(tasks: int) -> None:
    """Normal task means: 95 % of Student's intervals hold the truth, of resampled ones of two tasks .80 did."""
    rng, held = np.random.default_rng(0), 0
    codes = np.repeat(np.arange(tasks), 10)
    for _ in range(300):
        values = rng.normal(size=tasks)[codes]
        row = interval(values, codes, replicates=200)
        assert row.low is not None and row.high is not None
        half = stats.t.ppf(0.975, tasks - 1) * stats.sem(values[::10])
        assert (row.value - row.low, row.high - row.value) >= (half * (1 - 1e-9), half * (1 - 1e-9))
        held += row.low <= 0 <= row.high
    assert held >= 0.92 * 300
