"""Probabilities that mean what they say: undoing a training prior, Platt scaling, reliability.

Pure functions of arrays. Class-balanced losses and upsampling move a head's prior; `prior_shift` moves it back
exactly. What is left is mended by two numbers fitted on held-out tasks and reported by slope and calibration error.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

Array = npt.NDArray[np.float64]
_ROUNDS = 50


def logit(p: npt.ArrayLike) -> Array:
    """log p / (1 - p), with p kept off 0 and 1."""
    kept = np.clip(np.asarray(p, dtype=np.float64), 1e-9, 1 - 1e-9)
    odds: Array = np.log(kept) - np.log1p(-kept)
    return odds


def sigmoid(x: npt.ArrayLike) -> Array:
    values = np.asarray(x, dtype=np.float64)
    p: Array = np.exp(-np.logaddexp(0.0, -values))
    return p


def prior_shift(trained: float, natural: float) -> float:
    """What to add to a logit of a head trained where positives had rate `trained`, where they have rate `natural`.

    Exact for any shift that only re-weighs the two classes: balancing by a positive weight, or upsampling.
    """
    return float(logit(natural) - logit(trained))


@dataclass(frozen=True, slots=True)
class Platt:
    """p = sigmoid(slope * logit + offset)."""

    slope: float = 1.0
    offset: float = 0.0

    def __call__(self, logits: npt.ArrayLike) -> Array:
        return self.slope * np.asarray(logits, dtype=np.float64) + self.offset


def fit_platt(logits: npt.ArrayLike, labels: npt.ArrayLike, prior: float = 1.0) -> Platt:
    """Maximum a posteriori slope and offset by Newton's method; `labels` may be shares between 0 and 1.

    `prior` is the precision of a Gaussian around (1, 0): with little data the head is left as it is.
    """
    x, y = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    design = np.stack([x, np.ones_like(x)], 1)
    origin = np.array([1.0, 0.0])
    beta = origin.copy()
    for _ in range(_ROUNDS):
        p = sigmoid(design @ beta)
        gradient = design.T @ (p - y) + prior * (beta - origin)
        hessian = (design * (p * (1 - p))[:, None]).T @ design + prior * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        beta = beta - step * min(1.0, 1.0 / (np.abs(step).max() + 1e-12))
        if np.abs(step).max() < 1e-8:
            break
    return Platt(float(beta[0]), float(beta[1]))


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
    ranks = rankdata(s)
    return float((ranks[y].sum() - positives * (positives + 1) / 2) / (positives * negatives))
