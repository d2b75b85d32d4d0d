"""Differences of means, paired by task: Student's interval, the probability of being better, wins and losses.

Pure functions of arrays. A task is the unit: episodes of one task are averaged before anything is compared.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy import special

Values = npt.NDArray[np.float64]
EQUAL = 1e-9
"""Differences below this share of the largest that there can be are ties."""
POWER = 0.8
"""Share of logs with so many tasks as are said to be needed that tell the policies apart."""
MOST_TASKS = 10**9
"""Beyond this, Student's quantile is the normal one."""


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference with its interval, and the probability that it is above 0; None where one unit says nothing."""

    value: float
    low: float | None
    high: float | None
    p_better: float | None
    n: int
    """Units: tasks, or the smaller side's tasks where they are not paired."""


def paired(
    differences: Values, confidence: float = 0.95, most: float = 1.0, limit: float | None = None
) -> PairedDifference:
    """The mean of one difference per task. `most`: the largest difference a task can have, for the case that all are
    alike, of which Student's formula would be certain; `limit`: the same where it is certain, and the interval ends
    there."""
    n, mean = len(differences), _unrounded(float(differences.mean()), most)
    if n == 1:
        return PairedDifference(mean, None, None, None, 1)
    error = float(differences.std(ddof=1)) / np.sqrt(n)
    if error <= EQUAL * most:
        return _alike(mean, n, confidence, limit or most)
    return _ended(_student(mean, error, n - 1, confidence, n), limit)


def unpaired(first: Values, second: Values, confidence: float = 0.95, limit: float | None = None) -> PairedDifference:
    """mean(second) - mean(first) of policies that share no task, by Welch's formula; a value per task."""
    smaller, size = min(len(first), len(second)), float(np.abs([*first, *second]).max())
    mean = _unrounded(float(second.mean() - first.mean()), size)
    if smaller < 2:
        return PairedDifference(mean, None, None, None, smaller)
    parts = [values.var(ddof=1) / len(values) for values in (first, second)]
    if sum(parts) <= (EQUAL * size) ** 2:
        return _alike(mean, smaller, confidence, limit or size or 1.0)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(values) - 1) for part, values in zip(parts, (first, second), strict=True)
    )
    return _ended(_student(mean, float(np.sqrt(sum(parts))), freedom, confidence, smaller), limit)


def proportion(rate: float, units: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval (1927) of a rate over so many units: honest at 0 and 1 too."""
    z2 = float(special.ndtri((1 + confidence) / 2)) ** 2
    centre = (rate + z2 / (2 * units)) / (1 + z2 / units)
    half = np.sqrt(z2 * (rate * (1 - rate) / units + z2 / (4 * units**2))) / (1 + z2 / units)
    return float(max(0.0, min(rate, centre - half))), float(min(1.0, max(rate, centre + half)))


def task_rate(means: Values, episodes: Values, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of the mean of one success rate per task, each over so many `episodes`.

    The tasks count as that many trials as would scatter as their rates do (Korn & Graubard 1998, with Student's
    quantile for few tasks): never fewer than the tasks, nor more than the episodes are worth where these are all alike.
    """
    tasks, rate = len(means), float(means.mean())
    if tasks < 2:
        return proportion(rate, tasks, confidence)
    level = (1 + confidence) / 2
    few = float(special.ndtri(level) / special.stdtrit(tasks - 1, level))
    scatter, most = float(means.var(ddof=1)) / tasks, tasks**2 / float((1 / episodes).sum())
    trials = rate * (1 - rate) / scatter * few**2 if scatter > 0 else most
    return proportion(rate, max(tasks, min(trials, most)), confidence)


def wins(differences: Values, most: float = 1.0) -> tuple[int, int, int]:
    """In how many tasks the difference is above 0, none, below 0; `most` as in `paired`."""
    above, below = int((differences > EQUAL * most).sum()), int((differences < -EQUAL * most).sum())
    return above, len(differences) - above - below, below


def task_means(values: Values, tasks: npt.NDArray[np.int64], count: int) -> Values:
    """The mean value of each of `count` tasks; nan where a task has none."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(tasks, values, count) / np.bincount(tasks, minlength=count))


def tasks_needed(differences: Values, confidence: float, difference: float) -> int:
    """The fewest tasks of which Student's interval leaves out 0 in a share POWER of logs.

    That is, if the mean difference is `difference` and the tasks' differences are spread as these are.
    """
    level, ratio = (1 + confidence) / 2, float(differences.std(ddof=1)) / difference
    quantiles = float(special.ndtri(level) + special.ndtri(POWER))
    tasks = max(2, int(np.ceil((quantiles * ratio) ** 2)))  # Student's quantiles are larger: go up
    while tasks < MOST_TASKS and _quantiles(tasks - 1, level) * ratio > np.sqrt(tasks):
        tasks += 1
    return tasks


def _quantiles(freedom: int, level: float) -> float:
    """What the mean must exceed 0 by, in standard errors, to be told from it in a share POWER of samples."""
    return float(special.stdtrit(freedom, level) + special.stdtrit(freedom, POWER))


def _unrounded(mean: float, most: float) -> float:
    """The mean difference, 0 where it is what rounding leaves of differences that cancel."""
    return mean if abs(mean) > EQUAL * most else 0.0


def _student(mean: float, error: float, freedom: float, confidence: float, n: int) -> PairedDifference:
    half = float(special.stdtrit(freedom, (1 + confidence) / 2)) * error
    return PairedDifference(mean, mean - half, mean + half, float(special.stdtr(freedom, mean / error)), n)


def _ended(difference: PairedDifference, limit: float | None) -> PairedDifference:
    """The difference, its interval without what lies beyond the largest that there can be."""
    if limit is None or difference.low is None or difference.high is None:
        return difference
    return replace(difference, low=max(difference.low, -limit), high=min(difference.high, limit))


def _alike(mean: float, n: int, confidence: float, most: float) -> PairedDifference:
    """All n tasks differ by the same. The share of other tasks that may differ otherwise is at most q (Clopper and
    Pearson 1934), each by `most` at most; the chance of winning has a uniform prior."""
    q = 1 - ((1 - confidence) / 2) ** (1 / n)
    p = 0.5 if mean == 0 else 1 - 0.5 ** (n + 1) if mean > 0 else 0.5 ** (n + 1)
    low, high = (max((1 - q) * mean - q * most, -most), min((1 - q) * mean + q * most, most))
    return PairedDifference(mean, min(low, mean), max(high, mean), p, n)
