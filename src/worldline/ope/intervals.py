"""The mean of per-episode values and its interval: one shared function for every estimator.

Episodes of one task are not independent, so values are first gathered into one unit per task with the same overall
mean; everything after that is about independent units. With a single task the units are the episodes, and the caller
says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
import scipy  # its `special` loads when it is first used: not in every command

from worldline.ope.log import Codes, Episodes, Matrix

Method = Literal["bootstrap", "student-t"]
Range = tuple[float, float]
"""The lowest and the highest that a value can be."""
Columns = Annotated[Matrix, "episodes estimators"] | Sequence[Episodes]
CHUNK = 1 << 17
"""Resampled units, or values of columns, held at once: bounds the bootstrap's memory."""
ROUNDING = 1e-9
"""How far sums of the same numbers in another order may lie apart, as a share of their size."""
ROW_BY_ROW = 500
"""Units from which a resample is counted faster on its own than with others."""
MOST_UNITS = 4096
"""More tasks than that are joined into as many groups before resampling: still independent and alike, and the cost of
the bootstrap stops growing with the log."""


FEW_UNITS = 4
"""Of fewer units there are 3 or 10 different resamples, whose quantiles end at the units themselves: limits are no
nearer than Student's."""


@dataclass(frozen=True)
class Interval:
    """An estimate; `low` and `high` are None where one unit leaves nothing to resample."""

    value: float
    low: float | None
    high: float | None
    n: int

    def covers(self, truth: float) -> bool | None:
        """Whether `truth` lies in it, or beside it by no more than sums are rounded; None without a limit."""
        if self.low is None and self.high is None:
            return None
        slack = ROUNDING * max(abs(limit) for limit in (truth, self.value, self.low, self.high) if limit is not None)
        above = self.low is None or truth >= self.low - slack
        return above and (self.high is None or truth <= self.high + slack)


def around(value: float, low: float | None, high: float | None, n: int) -> Interval:
    """An interval that holds its own estimate: limits of values that are all alike are rounded to either side of it."""
    return Interval(value, None if low is None else min(low, value), None if high is None else max(high, value), n)


def interval(
    values: Episodes,
    tasks: Codes,
    method: Method = "bootstrap",
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> Interval:
    """Mean and interval of `values`."""
    return intervals(values[:, None], tasks, method, confidence, replicates, seed)[0]


def intervals(
    values: Columns,
    tasks: Codes,
    method: Method = "bootstrap",
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> list[Interval]:
    """One interval per column, all columns on the same resamples: so differences between them are paired."""
    columns = _listed(values)
    if not columns:
        return []
    n = len(tasks)
    if n == 1:
        return [Interval(float(column[0]), None, None, 1) for column in columns]
    tail = (1 - confidence) / 2
    scales = [max(float(np.abs(column).max()), 1e-300) for column in columns]  # weights reach 1e260: squares do not fit
    parts: list[Matrix] = []
    joined: list[Matrix] = []
    first = 0
    for group in _stacked(columns):
        scaled = group / np.array(scales[first : first + group.shape[1]])
        first += group.shape[1]
        parts.append(_summary(scaled.mean(axis=0), task_units(scaled, tasks), tail))
        if method == "bootstrap":
            joined.append(_joined_units(scaled, tasks))
    means, unit_means, skew, stretch, half = np.concatenate(parts, axis=1)
    if method == "bootstrap":
        resampled = _resampled(np.concatenate(joined, axis=1), replicates, seed)
        low, high = bias_corrected(resampled, unit_means, skew, tail)
        low, high = means - stretch * (means - low), means + stretch * (high - means)
        if len(joined[0]) < FEW_UNITS:
            low, high = np.minimum(low, means - half), np.maximum(high, means + half)
    else:
        low, high = means - half, means + half
    return [
        around(float(m * s), _limit(a * s), _limit(b * s), n)
        for m, a, b, s in zip(means, low, high, scales, strict=True)
    ]


def _summary(means: npt.NDArray[np.float64], units: Matrix, tail: float) -> Annotated[Matrix, "5 estimators"]:
    """What a column's interval needs of its units."""
    half = scipy.special.stdtrit(len(units) - 1, 1 - tail) * units.std(axis=0, ddof=1) / np.sqrt(len(units))
    return np.stack([means, units.mean(axis=0), skewness(units), student_stretch(units, tail), half])


def _listed(values: Columns) -> list[Episodes]:
    return list(values.T) if isinstance(values, np.ndarray) else list(values)


def _stacked(values: Columns) -> Iterator[Annotated[Matrix, "episodes estimators"]]:
    """The columns side by side, some at a time."""
    columns = _listed(values)
    width = max(1, CHUNK // len(columns[0])) if columns else 1
    return (np.stack(columns[first : first + width], axis=1) for first in range(0, len(columns), width))


def column_means(values: Columns) -> npt.NDArray[np.float64]:
    return np.concatenate([group.mean(axis=0) for group in _stacked(values)])


def _limit(value: float) -> float | None:
    """None where the interval has no such limit."""
    return float(value) if np.isfinite(value) else None


def widened(interval: Interval, error: float, confidence: float) -> Interval:
    """The interval with an independent normal error of standard deviation `error` added to each limit it has."""
    value, low, high = interval.value, interval.low, interval.high
    extra = _normal_quantile((1 + confidence) / 2) * error
    low = None if low is None else value - float(np.hypot(value - low, extra))
    high = None if high is None else value + float(np.hypot(high - value, extra))
    return Interval(value, low, high, interval.n)


FEWEST_OUTCOMES = 6
"""Returns below which two different ones may be any of many."""


def two_outcomes(returns: Episodes) -> Range | None:
    """A loss and a win, where every return is one of two and both recur; None else, or of too few to tell."""
    outcomes, counts = np.unique(returns, return_counts=True)
    if len(outcomes) != 2 or counts.min() < 2 or counts.sum() < FEWEST_OUTCOMES:
        return None
    return float(outcomes[0]), float(outcomes[1])


def within(interval: Interval, ends: Range | None) -> Interval:
    """The interval without what lies beyond `ends`; an estimate that lies there itself keeps its limits."""
    if ends is None or not ends[0] <= interval.value <= ends[1]:
        return interval
    low = None if interval.low is None else max(interval.low, ends[0])
    high = None if interval.high is None else min(interval.high, ends[1])
    return Interval(interval.value, low, high, interval.n)


def differences_of(ends: Range | None) -> Range | None:
    """Between which a difference of two values lies that lie between `ends`."""
    return None if ends is None else (ends[0] - ends[1], ends[1] - ends[0])


def error_by(errors: Sequence[float], confidence: float) -> float:
    """The error for `widened` from a few measured errors: their root mean square, and more of it the fewer they are,
    by as much as Student's quantile exceeds the normal one. None at all: 0."""
    if not errors:
        return 0.0
    few = _student_quantile((1 + confidence) / 2, len(errors)) / _normal_quantile((1 + confidence) / 2)
    return float(few * np.sqrt(np.mean(np.square(errors))))


@cache
def _normal_quantile(share: float) -> float:
    return float(scipy.special.ndtri(share))


@cache
def _student_quantile(share: float, freedom: int) -> float:
    return float(scipy.special.stdtrit(freedom, share))


def task_units(values: Annotated[Matrix, "episodes estimators"], tasks: Codes) -> Matrix:
    """One row per task, of the same overall mean: mean + (m/n) sum over its episodes of (value - mean).

    This is the linearised cluster mean: it accounts for tasks having different numbers of episodes.
    """
    distinct, codes = np.unique(tasks, return_inverse=True)
    if len(distinct) in (1, len(tasks)):
        return values
    means = values.mean(axis=0)
    sums = np.stack([np.bincount(codes, column - mean) for column, mean in zip(values.T, means, strict=True)], axis=1)
    return np.asarray(means + sums * (len(distinct) / len(values)))


def bootstrap_means(
    values: Columns, tasks: Codes, replicates: int, seed: int
) -> Annotated[Matrix, "replicates estimators"]:
    """Means over resampled tasks.

    The same seed and number of tasks give the same resamples whatever the values: policies compared on one log are
    compared on the same resamples.
    """
    units = np.concatenate([_joined_units(group, tasks) for group in _stacked(values)], axis=1)
    return _resampled(units, replicates, seed)


def _joined_units(values: Annotated[Matrix, "episodes estimators"], tasks: Codes) -> Matrix:
    """`task_units` of tasks in at most `MOST_UNITS` groups."""
    distinct, codes = np.unique(tasks, return_inverse=True)
    if len(distinct) == 1:
        codes = np.arange(len(tasks))
    return task_units(values, codes % MOST_UNITS)


def _resampled(units: Matrix, replicates: int, seed: int) -> Annotated[Matrix, "replicates estimators"]:
    """Multinomial counts times units, a bounded number of replicates at a time."""
    rng = np.random.default_rng(seed)
    m = len(units)
    means = np.empty((replicates, units.shape[1]))
    chunk = max(1, CHUNK // m)
    for first in range(0, replicates, chunk):
        rows = min(chunk, replicates - first)
        means[first : first + rows] = _counts(rng.integers(0, m, size=(rows, m), dtype=np.int32)) @ units / m
    return means


def _counts(drawn: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
    """How often each unit is in each row."""
    rows, m = drawn.shape
    if m < ROW_BY_ROW:
        drawn += (np.arange(rows, dtype=np.int32) * m)[:, None]
        return np.bincount(drawn.ravel(), minlength=rows * m).reshape(rows, m).astype(np.float64)
    counts = np.empty((rows, m))
    for row, units in zip(counts, drawn, strict=True):
        row[:] = np.bincount(units, minlength=m)
    return counts


def skewness(units: Matrix) -> npt.NDArray[np.float64]:
    """A sixth of the third moment's share, as BCa limits take it."""
    centred = units - units.mean(axis=0)
    spread = np.maximum(np.square(centred).sum(axis=0), 1e-100)  # values that are all alike have no skew either
    return np.asarray((centred**3).sum(axis=0) / (6 * spread**1.5))


def bias_corrected(
    resampled: Annotated[Matrix, "replicates estimators"],
    means: npt.NDArray[np.float64],
    skew: npt.NDArray[np.float64],
    tail: float,
) -> Annotated[Matrix, "2 estimators"]:
    """BCa limits (Efron 1987): percentiles moved by the resamples' bias and the units' skewness.

    Importance weights are skewed; plain percentiles of their mean leave the exact value above them too often.
    Resamples that differ from the mean by rounding alone are as large: else the order of a sum would decide.
    """
    gaps, slack = resampled - means, ROUNDING * np.abs(resampled).max(axis=0)
    below = (gaps < -slack).mean(axis=0) + 0.5 * (np.abs(gaps) <= slack).mean(axis=0)
    shift = scipy.special.ndtri(np.clip(below, 1 / len(resampled), 1 - 1 / len(resampled)))
    z = shift + scipy.special.ndtri([[tail], [1 - tail]])
    levels = scipy.special.ndtr(shift + z / np.maximum(1 - skew * z, 1e-3))
    return np.stack([np.quantile(column, level) for column, level in zip(resampled.T, levels.T, strict=True)], axis=1)


def stretches(values: Columns, tasks: Codes, tail: float) -> npt.NDArray[np.float64]:
    """`student_stretch` of every column."""
    groups = (group / np.maximum(np.abs(group).max(axis=0), 1e-300) for group in _stacked(values))  # powers must fit
    return np.concatenate([student_stretch(task_units(group, tasks), tail) for group in groups])


def student_stretch(units: Matrix, tail: float) -> npt.NDArray[np.float64]:
    """Student's quantile over the normal one, with m / (2 kurtosis) degrees of freedom, m - 1 at most.

    A resample cannot draw the large weights that the log missed, so that intervals of few or skewed units are too
    short. The variance of m units is as uncertain as that of a normal sample with 2m / (kurtosis - 1) degrees of
    freedom (Satterthwaite 1946); a sample understates its kurtosis, and a quarter of that was what brought coverage to
    nominal on the tuning seeds of `bench coverage`.
    """
    centred = units - units.mean(axis=0)
    variance = np.square(centred).mean(axis=0)
    kurtosis = np.where(variance > 1e-100, (centred**4).mean(axis=0) / np.maximum(variance, 1e-100) ** 2, 1.0)
    freedom = np.minimum(np.maximum(len(units) / (2 * np.maximum(kurtosis, 1.0)), 1.5), max(len(units) - 1, 1))
    return np.asarray(scipy.special.stdtrit(freedom, 1 - tail) / scipy.special.ndtri(1 - tail))
