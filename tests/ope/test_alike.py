"""Logs whose returns are all the same: the interval against Clopper and Pearson's, coverage against exact values."""

import numpy as np
import pytest
from scipy import stats

from worldline.ope.alike import returns_alike
from worldline.ope.diagnostics import Diagnostics, distrust
from worldline.ope.estimation import EstimatorInput
from worldline.ope.intervals import interval
from worldline.ope.log import RaggedLog, TargetLog
from worldline.ope.model_error import estimated

NAMES = ("naive", "wis", "pdwis")


def bandit(returns: np.ndarray, ratios: np.ndarray, tasks: np.ndarray | None = None) -> EstimatorInput:
    """One step an episode; the logger took either action with probability 1/2."""
    n = len(returns)
    log = RaggedLog(
        rewards=returns,
        behaviour=np.full(n, np.log(0.5)),
        offsets=np.arange(n + 1),
        tasks=np.arange(n) if tasks is None else tasks,
        policies=np.zeros(n, dtype=np.int64),
        terminated=np.ones(n, dtype=np.bool_),
        policy_names=("a",),
    )
    return EstimatorInput(log, 1.0, target=TargetLog(np.log(0.5 * ratios)))


def limits(evidence: EstimatorInput, name: str) -> tuple[float, float]:
    results = estimated(evidence, [name])
    wide = results.widened(name, interval(results.values[name], evidence.log.tasks, replicates=200), 0.95)
    assert wide.low is not None and wide.high is not None
    return wide.low, wide.high


@pytest.mark.parametrize("scale", [1.0, -3.0, 1e-9])
def test_the_interval_is_that_of_the_share_that_may_end_otherwise(scale: float) -> None:
    """Of 30 successes the share of failures is at most that of a test at 2.5 %; each may lie as far below 0."""
    share = stats.binomtest(0, 30).proportion_ci(0.95, "exact").high
    low, high = limits(bandit(np.full(30, scale), np.ones(30)), "wis")
    assert (low, high) == (pytest.approx(scale - 2 * share * abs(scale)), pytest.approx(scale + 2 * share * abs(scale)))


def test_tasks_count_and_of_weighted_episodes_the_effective_ones() -> None:
    by_task = bandit(np.ones(30), np.ones(30), np.arange(30) // 3)
    assert limits(by_task, "naive")[0] == pytest.approx(1 - 2 * stats.binomtest(0, 10).proportion_ci(0.95).high)
    ratios = np.where(np.arange(30) < 5, 1.0, 1e-9)
    assert limits(bandit(np.ones(30), ratios), "wis")[0] == pytest.approx(
        1 - 2 * stats.binomtest(0, 5).proportion_ci(0.95).high, rel=1e-6
    )


def test_high_success_rates_are_covered() -> None:
    """A third of such logs hold successes alone, and their resamples have no spread."""
    hits = dict.fromkeys(NAMES, 0)
    alone = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        returns = (rng.random(50) < 0.98).astype(float)
        evidence = bandit(returns, np.where(rng.random(50) < 0.5, 1.2, 0.8))
        alone += returns_alike(returns)
        for name in NAMES:
            low, high = limits(evidence, name)
            hits[name] += low - 1e-9 <= 0.98 <= high + 1e-9
    assert alone > 30
    assert all(count >= 0.93 * 150 for count in hits.values()), hits


def test_other_logs_are_left_alone() -> None:
    returns = np.array([1.0] * 29 + [0.0])
    assert not estimated(bandit(returns, np.ones(30)), NAMES).doubts
    assert not returns_alike(np.ones(1)), "one episode has no interval anyway"


def test_returns_that_are_all_0_have_no_scale_and_a_flag() -> None:
    flag = distrust("wis", np.zeros(30), Diagnostics(30, 30, ess=30.0), np.zeros(30))
    assert flag is not None and "every logged return is 0" in flag
    assert distrust("wis", np.ones(30), Diagnostics(30, 30, ess=30.0), np.ones(30)) is None
