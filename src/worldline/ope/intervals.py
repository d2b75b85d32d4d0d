"""The mean of per-episode values and its interval: one shared function for every estimator.

Episodes of one task are not independent, so values are first gathered into one unit per task with the same overall
mean; everything after that is about independent units. With a single task the units are the episodes, and the caller
says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

from worldline.ope.log import Codes, Episodes, Matrix
from worldline.types import InputError

Method = Literal["bootstrap", "student-t", "bernstein", "hcope"]
BOUNDED = ("bernstein", "hcope")
"""Methods that need to know the range of an episode's value."""
CHUNK = 1 << 17
"""Resampled units held at once: bounds the bootstrap's memory."""
MOST_UNITS = 4096
"""More tasks than that are joined into as many groups before resampling: still independent and alike, and the cost of
the bootstrap stops growing with the log."""


@dataclass(frozen=True)
class Interval:
    """An estimate; `low` and `high` are None where one unit leaves nothing to resample."""

    value: float
    low: float | None
    high: float | None
    n: int


def interval(
    values: Episodes,
    tasks: Codes,
    method: Method = "bootstrap",
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Mean and interval of `values`; `bounds`, the a-priori range of an episode's value, is for the last two."""
    return intervals(values[:, None], tasks, method, confidence, replicates, seed, bounds)[0]


def intervals(
    values: Annotated[Matrix, "episodes estimators"],
    tasks: Codes,
    method: Method = "bootstrap",
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> list[Interval]:
    """One interval per column, all columns on the same resamples: so differences between them are paired."""
    n = len(values)
    if not values.shape[1]:
        return []
    if n == 1:
        return [Interval(float(value), None, None, 1) for value in values[0]]
    scale = np.maximum(np.abs(values).max(axis=0), 1e-300)  # weights reach 1e260: their squares would not fit
    scaled = values / scale
    means = scaled.mean(axis=0)
    tail = (1 - confidence) / 2
    if method == "bootstrap":
        low, high = bias_corrected(bootstrap_means(scaled, tasks, replicates, seed), task_units(scaled, tasks), tail)
    elif method == "student-t":
        units = task_units(scaled, tasks)
        half = stats.t.ppf(1 - tail, len(units) - 1) * units.std(axis=0, ddof=1) / np.sqrt(len(units))
        low, high = means - half, means + half
    elif bounds is None:
        raise InputError(f"a {method} interval needs bounds: the smallest and largest value an episode can have")
    elif method == "bernstein":
        half = empirical_bernstein(task_units(scaled, tasks), _unit_range(tasks, bounds) / scale, 1 - confidence)
        low, high = means - half, means + half
    else:
        units = task_units(scaled - bounds[0] / scale, tasks, centred=False)
        low = bounds[0] / scale + np.array([hcope_lower(unit, 1 - confidence) for unit in units.T])
        high = np.full(len(low), np.inf)
    return [
        Interval(float(m * s), _limit(a * s), _limit(b * s), n)
        for m, a, b, s in zip(means, low, high, scale, strict=True)
    ]


def _limit(value: float) -> float | None:
    """None where the interval has no such limit."""
    return float(value) if np.isfinite(value) else None


def widened(interval: Interval, error: float, confidence: float) -> Interval:
    """The interval with an independent normal error of standard deviation `error` added to each limit it has."""
    value, low, high = interval.value, interval.low, interval.high
    extra = float(stats.norm.ppf((1 + confidence) / 2)) * error
    low = None if low is None else value - float(np.hypot(value - low, extra))
    high = None if high is None else value + float(np.hypot(high - value, extra))
    return Interval(value, low, high, interval.n)


def error_by(errors: Sequence[float], confidence: float) -> float:
    """The error for `widened` that is known by a few instances of it only: their root mean square, and more of it the
    fewer they are, by as much as Student's quantile exceeds the normal one. None at all: 0."""
    if not errors:
        return 0.0
    few = stats.t.ppf((1 + confidence) / 2, len(errors)) / stats.norm.ppf((1 + confidence) / 2)
    return float(few * np.sqrt(np.mean(np.square(errors))))


def task_units(values: Annotated[Matrix, "episodes estimators"], tasks: Codes, centred: bool = True) -> Matrix:
    """One row per task, of the same overall mean: mean + (m/n) sum over its episodes of (value - mean).

    This is the linearised cluster mean: it accounts for tasks having different numbers of episodes. Uncentred it is
    (m/n) sum of values: wider, but never negative when the values are not.
    """
    distinct, codes = np.unique(tasks, return_inverse=True)
    if len(distinct) in (1, len(tasks)):
        return values
    means = values.mean(axis=0) if centred else np.zeros(values.shape[1])
    sums = np.stack([np.bincount(codes, column - mean) for column, mean in zip(values.T, means, strict=True)], axis=1)
    return np.asarray(means + sums * (len(distinct) / len(values)))


def _unit_range(tasks: Codes, bounds: tuple[float, float]) -> float:
    """The range of a task's unit: that of an episode, times how much the largest task outweighs the average one."""
    sizes = np.unique(tasks, return_counts=True)[1]
    return (bounds[1] - bounds[0]) * (float(sizes.max() / sizes.mean()) if len(sizes) > 1 else 1.0)


def bootstrap_means(
    values: Annotated[Matrix, "episodes estimators"], tasks: Codes, replicates: int, seed: int
) -> Annotated[Matrix, "replicates estimators"]:
    """Means over resampled tasks: multinomial counts times units, a bounded number of replicates at a time.

    The same seed and number of tasks give the same resamples whatever the values: policies compared on one log are
    compared on the same resamples.
    """
    distinct, codes = np.unique(tasks, return_inverse=True)
    if len(distinct) == 1:
        codes = np.arange(len(tasks))
    units = task_units(values, codes % MOST_UNITS)
    rng = np.random.default_rng(seed)
    m = len(units)
    means = np.empty((replicates, units.shape[1]))
    chunk = max(1, CHUNK // m)
    for first in range(0, replicates, chunk):
        rows = min(chunk, replicates - first)
        drawn = rng.integers(0, m, size=(rows, m), dtype=np.int32)
        drawn += (np.arange(rows, dtype=np.int32) * m)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * m).reshape(rows, m)
        means[first : first + rows] = counts @ units / m
    return means


def bias_corrected(
    resampled: Annotated[Matrix, "replicates estimators"], units: Matrix, tail: float
) -> Annotated[Matrix, "2 estimators"]:
    """BCa limits (Efron 1987): percentiles moved by the resamples' bias and the units' skewness.

    Importance weights are skewed; plain percentiles of their mean leave the exact value above them too often.
    """
    centred = units - units.mean(axis=0)
    spread = np.maximum(np.square(centred).sum(axis=0), 1e-100)  # values that are all alike have no skew either
    skew = (centred**3).sum(axis=0) / (6 * spread**1.5)
    means = units.mean(axis=0)
    below = (resampled < means).mean(axis=0) + 0.5 * (resampled == means).mean(axis=0)
    shift = stats.norm.ppf(np.clip(below, 1 / len(resampled), 1 - 1 / len(resampled)))
    z = shift + stats.norm.ppf([[tail], [1 - tail]])
    levels = stats.norm.cdf(shift + z / np.maximum(1 - skew * z, 1e-3))
    return np.stack([np.quantile(column, level) for column, level in zip(resampled.T, levels.T, strict=True)], axis=1)


def empirical_bernstein(units: Matrix, spread: npt.NDArray[np.float64], delta: float) -> npt.NDArray[np.float64]:
    """Half width sqrt(2 s^2 ln(4/delta)/m) + 7 R ln(4/delta)/(3(m - 1)) (Maurer & Pontil 2009, theorem 4)."""
    m = len(units)
    log_term = np.log(4 / delta)
    deviation = np.sqrt(2 * units.var(axis=0, ddof=1) * log_term / m)
    return np.asarray(deviation + 7 * spread * log_term / (3 * (m - 1)))


def hcope_lower(values: Episodes, delta: float) -> float:
    """Lower bound on the mean of values >= 0 however heavy their tail (Thomas et al. 2015, theorem 1).

    Values are truncated at c; c is chosen on a twentieth of them, the bound is computed on the others.
    """
    split = max(2, len(values) // 20)
    pilot, rest = values[:split], values[split:]
    if len(rest) < 2 or not pilot.any():
        return 0.0
    candidates = pilot.mean() * np.geomspace(0.1, 1000, 60)
    best = max(candidates, key=lambda c: _hcope_at(pilot, float(c), delta, len(rest)))
    return max(0.0, _hcope_at(rest, float(best), delta, len(rest)))


def _hcope_at(values: Episodes, c: float, delta: float, n: int) -> float:
    """The bound with one threshold; `n` other than len(values) predicts what it would be at that size."""
    truncated = np.minimum(values, c)
    log_term = np.log(2 / delta)
    spread = np.sqrt(2 * log_term * truncated.var(ddof=1) / n)
    return float(truncated.mean() - 7 * c * log_term / (3 * (n - 1)) - spread)
