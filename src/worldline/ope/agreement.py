"""How well estimates agree with true values: ranks, errors, coverage, and whether chance would do as well.

Also the trivial predictors every table must beat: an epsilon sweep alone is ranked at Spearman .93 by `-epsilon`, which
uses no data (ADWM's own tables 5-6). An undefined measure, such as a rank correlation of a constant, is None.
"""

from collections.abc import Sequence
from itertools import permutations
from math import comb
from typing import Annotated

import numpy as np
import numpy.typing as npt

from worldline.ope.intervals import Interval

Values = Annotated[npt.NDArray[np.float64], "policies"]
MOST_ENUMERATED = 8
RANDOM_PERMUTATIONS = 20_000


def agreement(
    estimates: Sequence[Interval],
    truth: Sequence[float],
    resampled: Annotated[npt.NDArray[np.float64], "replicates policies"] | None = None,
    confidence: float = 0.95,
    in_units_of_value: bool = True,
) -> dict[str, float | None]:
    """All measures, and of how many policies they are.

    A predictor that only ranks (`-epsilon`) has no errors: `in_units_of_value` is false.
    """
    x, y = _rounded(np.array([estimate.value for estimate in estimates])), np.asarray(truth, dtype=np.float64)
    low, high = spearman_interval(resampled, y, confidence) if resampled is not None else (None, None)
    ranks = {
        "policies": float(len(y)),
        "spearman": spearman(x, y),
        "spearman_low": low,
        "spearman_high": high,
        "p": permutation_p(x, y),
        "kendall": kendall(x, y),
        "pairwise": pairwise_accuracy(x, y),
        "regret@1": regret(x, y, 1),
        "regret@3": regret(x, y, 3) if len(y) > 3 else None,
    }
    units: dict[str, float | None] = dict.fromkeys(("mae", "rmse", "slope", "coverage"))
    if in_units_of_value and len(y):
        units["mae"] = float(np.abs(x - y).mean())
        worst = max(float(np.abs(x - y).max()), 1e-300)  # an exploded estimate squared is beyond any float
        units["rmse"] = worst * float(np.sqrt(np.square((x - y) / worst).mean()))
        units["slope"] = calibration_slope(x, y)
        units["coverage"] = coverage(estimates, y)
    return ranks | units


def spearman(x: Values, y: Values) -> float | None:
    """Pearson correlation of the ranks, ties at their mean rank; None where either side is constant."""
    return _pearson(_ranks(x), _ranks(y))


def kendall(x: Values, y: Values) -> float | None:
    """tau-b."""
    if _constant(x) or _constant(y):
        return None
    from scipy import stats

    return float(stats.kendalltau(x, y).statistic)


def pairwise_accuracy(x: Values, y: Values) -> float | None:
    """Share of pairs with different truth that are ordered right; a tie in the estimate is half right."""
    first, second = np.triu_indices(len(y), k=1)
    true = np.sign(y[first] - y[second])
    estimated = np.sign(x[first] - x[second])
    counted = true != 0
    return float((0.5 + 0.5 * true * estimated)[counted].mean()) if counted.any() else None


def regret(x: Values, y: Values, k: int) -> float | None:
    """Best true value minus the best among the k highest estimates; expected over the order of tied estimates."""
    if not len(y):
        return None
    cut = np.sort(x)[::-1][min(k, len(x)) - 1]
    surely = y[x > cut]
    tied = np.sort(y[x == cut])
    free = min(k, len(x)) - len(surely)
    floor = surely.max() if len(surely) else -np.inf
    chance = [comb(i, free - 1) / comb(len(tied), free) for i in range(len(tied))]  # that tied[i] is the best one drawn
    return float(y.max() - np.maximum(tied, floor) @ chance)


def calibration_slope(x: Values, y: Values) -> float | None:
    """Slope of the truth regressed on the estimate: 1 when differences between policies have the right size."""
    if _constant(x):
        return None
    scale = float(np.abs(x).max())
    centred = (x - x.mean()) / scale
    return float(centred @ y / (centred @ centred) / scale)


def coverage(estimates: Sequence[Interval], truth: Values) -> float | None:
    """Share of the true values that lie within their interval; estimates without one are left out."""
    covered = [estimate.covers(float(true)) for estimate, true in zip(estimates, truth, strict=True)]
    inside = [hit for hit in covered if hit is not None]
    return float(np.mean(inside)) if inside else None


def permutation_p(x: Values, y: Values, seed: int = 0) -> float | None:
    """One-sided p-value of Spearman's rho: how often a random order ranks as well or better.

    Exact by enumeration up to 8 policies; beyond that 20,000 random orders, the observed one counted in.
    """
    if _constant(x) or _constant(y):
        return None
    a, b = _ranks(x), _ranks(y)
    observed = a @ b - 1e-9
    if len(a) <= MOST_ENUMERATED:
        orders = np.array(list(permutations(range(len(a)))))
        return float((b[orders] @ a >= observed).mean())
    rng = np.random.default_rng(seed)
    orders = rng.permuted(np.tile(np.arange(len(a)), (RANDOM_PERMUTATIONS, 1)), axis=1)
    return float((1 + (b[orders] @ a >= observed).sum()) / (1 + RANDOM_PERMUTATIONS))


def spearman_interval(
    resampled: Annotated[npt.NDArray[np.float64], "replicates policies"], truth: Values, confidence: float
) -> tuple[float | None, float | None]:
    """Percentiles of rho over resampled logs: all policies' estimates move together, as they share the log."""
    if _constant(truth):
        return None, None
    ranks, true = _ranks(_rounded(resampled)), _ranks(truth)
    rhos = [rho for rho in (_pearson(row, true) for row in ranks) if rho is not None]
    if not rhos:
        return None, None
    low, high = np.quantile(rhos, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _rounded(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values of equal estimates differ in their last digits by the order of a sum: these are no order of policies."""
    scale = float(np.abs(x).max(initial=0.0)) or 1.0
    return np.asarray(np.round(x / scale, 9) * scale)


def _ranks(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Of the values of each row, ties at their mean rank."""
    from scipy import stats  # takes a second: not for evaluations without true values

    return np.asarray(stats.rankdata(x, axis=-1))


def _pearson(a: Values, b: Values) -> float | None:
    if _constant(a) or _constant(b):
        return None
    return float(np.corrcoef(a, b)[0, 1])


def _constant(x: Values) -> bool:
    return len(x) < 2 or bool(np.ptp(x) == 0)
