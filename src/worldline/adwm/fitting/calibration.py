"""Do probabilities mean what they say? Discrimination, calibration slope and calibration error. Pure functions."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_ROUNDS = 50
_PRECISION = 1e-6
"""Of a Gaussian around slope 1 and offset 0: only what a log cannot decide is left to it."""


def logit(p: npt.ArrayLike) -> Array:
    """log p / (1 - p), with p kept off 0 and 1."""
    kept = np.clip(np.asarray(p, dtype=np.float64), 1e-9, 1 - 1e-9)
    odds: Array = np.log(kept) - np.log1p(-kept)
    return odds


def sigmoid(x: npt.ArrayLike) -> Array:
    values = np.asarray(x, dtype=np.float64)
    p: Array = np.exp(-np.logaddexp(0.0, -values))
    return p


def calibration_slope(p: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """The slope of a logistic regression of the labels on logit p: 1 is right, below 1 is overconfident."""
    x, y = logit(p), np.asarray(labels, dtype=np.float64)
    if not 0 < y.sum() < len(y):
        return float("nan")
    design = np.stack([x, np.ones_like(x)], 1)
    origin = np.array([1.0, 0.0])
    beta = origin.copy()
    for _ in range(_ROUNDS):
        chance = sigmoid(design @ beta)
        gradient = design.T @ (chance - y) + _PRECISION * (beta - origin)
        hessian = (design * (chance * (1 - chance))[:, None]).T @ design + _PRECISION * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        beta = beta - step * min(1.0, 1.0 / (np.abs(step).max() + 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return float(beta[0])


def calibration_error(p: npt.ArrayLike, labels: npt.ArrayLike, bins: int = 10) -> float:
    """Expected calibration error over equal-count bins."""
    values, y = np.asarray(p, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if not len(values):
        return float("nan")
    order = np.argsort(values, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    return float(sum(len(part) * abs(values[part].mean() - y[part].mean()) for part in parts) / len(order))


def area_under_curve(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Probability that a positive outranks a negative, ties counted half; nan where a class is missing."""
    s, y = np.asarray(scores, dtype=np.float64), np.asarray(labels) > 0.5
    positives, negatives = int(y.sum()), int((~y).sum())
    if not positives or not negatives:
        return float("nan")
    _, places, ties = np.unique(s, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[places]  # ties at their mean rank
    return float((ranks[y].sum() - positives * (positives + 1) / 2) / (positives * negatives))
