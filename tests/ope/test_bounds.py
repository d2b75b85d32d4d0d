"""Bounds that hold: by hand, under heavy tails, while the log grows; and refusals where nothing is proven."""

import numpy as np
import pytest

from worldline.ope.bounds import (
    PROVEN,
    TWO_SIDED,
    Bound,
    BoundInput,
    betting_lower,
    bounded,
    check_bounds,
    empirical_bernstein,
    hcope_lower,
)
from worldline.ope.estimation import ESTIMATORS, EstimatorInput, estimate
from worldline.ope.log import RaggedLog, RefusalError, TargetLog
from worldline.types import InputError


def bandit(seed: int, episodes: int) -> tuple[EstimatorInput, float]:
    """One step: action 1 pays with probability .8, action 0 with .3; the logger takes 1 in .2, the target in .6."""
    rng = np.random.default_rng(seed)
    chosen = rng.random(episodes) < 0.2
    paid = rng.random(episodes) < np.where(chosen, 0.8, 0.3)
    zeros = np.zeros(episodes, dtype=np.int64)
    log = RaggedLog(
        paid.astype(float), np.log(np.where(chosen, 0.2, 0.8)), np.arange(episodes + 1), np.arange(episodes), zeros,
        zeros.astype(bool),
    )  # packed lines read better  # fmt: skip
    return EstimatorInput(log, 1.0, target=TargetLog(np.log(np.where(chosen, 0.6, 0.4)))), 0.6 * 0.8 + 0.4 * 0.3


def given(evidence: EstimatorInput) -> BoundInput:
    log = evidence.log
    return BoundInput(log, 1.0, (0.0, 1.0), np.sqrt(log.episodes), evidence.weights[log.ends])


def test_bernstein_by_hand() -> None:
    values = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    half = np.sqrt(2 * 0.3 * np.log(80) / 5) + 7 * np.log(80) / 12
    assert empirical_bernstein(values[:, None], np.array([1.0]), 0.05)[0] == pytest.approx(half)


@pytest.mark.parametrize("n", [200, 2000])
def test_hcope_holds_under_heavy_tails(n: int) -> None:
    """Lognormal weights of mean 1: the bound stays below the mean in at least 95 % of logs, and says something."""
    rng = np.random.default_rng(n)
    limits = np.array([hcope_lower(rng.lognormal(-1.125, 1.5, size=n), 0.05) for _ in range(200)])
    assert (limits <= 1.0).mean() >= 0.95
    assert (limits >= 0).all()
    if n == 2000:
        assert np.median(limits) > 0.3


@pytest.mark.parametrize("method", list(PROVEN))
def test_every_proven_bound_holds(method: Bound) -> None:
    """The exact value lies outside in at most 5 % of 200 logs, for every estimator that is not refused."""
    misses = dict.fromkeys(PROVEN[method], 0)
    widths: dict[str, list[float]] = {name: [] for name in TWO_SIDED[method]}
    for seed in range(200):
        evidence, exact = bandit(seed, 400)
        values = estimate(evidence, PROVEN[method]).values
        for name in PROVEN[method]:
            truth = 0.2 * 0.8 + 0.8 * 0.3 if name == "naive" else exact
            limits = bounded(name, values[name], method, given(evidence), 0.95)
            assert limits.low is not None
            assert (limits.high is not None) == (name in TWO_SIDED[method])
            misses[name] += not limits.low <= truth <= (limits.high if limits.high is not None else np.inf)
            if limits.high is not None:
                widths[name].append(limits.high - limits.low)
    assert all(count <= 10 for count in misses.values()), misses
    assert all(np.median(width) < 0.6 for width in widths.values())


def test_a_confidence_sequence_holds_at_every_look() -> None:
    """Skewed values of mean .4, looked at after every 25 of 500: the lower limit exceeds it ever in 5 % of runs."""
    rng = np.random.default_rng(0)
    broken, last = 0, []
    for _ in range(100):
        values = 0.4 * rng.lognormal(-0.5, 1.0, size=500)
        limits = [betting_lower(values[:size], 0.05, 1.0) for size in range(25, 501, 25)]
        assert all(later >= earlier for earlier, later in zip(limits, limits[1:], strict=False))
        broken += max(limits) > 0.4
        last.append(limits[-1])
    assert broken <= 8
    assert np.median(last) > 0.3


def test_what_is_not_proven_is_refused() -> None:
    evidence, _ = bandit(0, 50)
    for method, proven in PROVEN.items():
        for name in set(ESTIMATORS) - set(proven):
            with pytest.raises(RefusalError, match=f"no {method} interval is proven for it"):
                bounded(name, np.zeros(50), method, given(evidence), 0.95)
    negative = BoundInput(evidence.log, 1.0, (-1.0, 1.0), 7.0)
    with pytest.raises(RefusalError, match="returns of 0 or more"):
        bounded("is", np.zeros(50), "hcope", negative, 0.95)


def test_a_range_that_the_log_contradicts_is_named() -> None:
    evidence, _ = bandit(0, 50)
    with pytest.raises(InputError, match=r"--bounds 0 0.5: episode \d+ of the log has return 1"):
        check_bounds(evidence.log, 1.0, (0.0, 0.5))
