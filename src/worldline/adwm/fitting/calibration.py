"""Do probabilities mean what they say? Discrimination, calibration slope and calibration error. Pure functions."""

import numpy as np
import numpy.typing as npt
from scipy import special

_ROUNDS = 50
_CLOSEST = 1e-9
"""Probabilities are kept so far from 0 and 1."""
_PRECISION = 1e-6
"""Of a Gaussian around slope 1 and offset 0: only what a log cannot decide is left to it."""


def calibration_slope(p: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """The slope of a logistic regression of the labels on logit p: 1 is right, below 1 is overconfident."""
    y = np.asarray(labels, dtype=np.float64)
    if not 0 < y.sum() < len(y):
        return float("nan")
    kept = np.clip(np.asarray(p, dtype=np.float64), _CLOSEST, 1 - _CLOSEST)
    design = np.stack([special.logit(kept), np.ones_like(kept)], 1)
    origin = np.array([1.0, 0.0])
    beta = origin.copy()
    for _ in range(_ROUNDS):
        chance = special.expit(design @ beta)
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
    from scipy import stats  # takes a second to import, and only a fit needs it

    y = np.asarray(labels) > 0.5
    positives, negatives = int(y.sum()), int((~y).sum())
    if not positives or not negatives:
        return float("nan")
    ranks = stats.rankdata(np.asarray(scores, dtype=np.float64))  # ties at their mean rank
    return float((ranks[y].sum() - positives * (positives + 1) / 2) / (positives * negatives))
