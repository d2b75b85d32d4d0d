"""The trivial predictors: what an estimator must beat before its ranking means anything (ADWM notes, section 4.1)."""

import numpy as np
import numpy.typing as npt

from worldline.ope.estimation import EstimatorInput
from worldline.ope.log import RaggedLog, RefusalError
from worldline.ope.weights import exp

RANK_ONLY = ("-epsilon", "episode length")
"""Predictors that are not in units of value: they have ranks, but no error."""


def trivial(evidence: EstimatorInput, epsilon: float) -> dict[str, float | None]:
    """The prediction of each trivial predictor; None where its input is missing."""
    return {
        "-epsilon": -epsilon,
        "behaviour mean": float(evidence.log.returns(evidence.gamma).mean()),
        "nearest logger": nearest_logger(evidence),
        "episode length": episode_length(evidence),
    }


def nearest_logger(evidence: EstimatorInput) -> float | None:
    """The mean return of the logger whose actions overlap most with the target's: mean of min(1, rho) on its steps."""
    try:
        closeness = evidence.ratios
    except RefusalError:
        if evidence.target is None:
            return None
        closeness = evidence.target.logprobs
    log, loggers = evidence.log, int(evidence.log.policies.max()) + 1

    def overlaps(part: RaggedLog, steps: slice) -> npt.ArrayLike:
        owner = np.repeat(part.policies, part.lengths)
        return np.bincount(owner, np.minimum(exp(closeness[steps]), 1.0), minlength=loggers)

    overlap = log.summed(overlaps) / np.maximum(np.bincount(log.policies, log.lengths), 1)
    nearest = int(np.argmax(overlap))
    return float(log.returns(evidence.gamma)[log.policies == nearest].mean())


def episode_length(evidence: EstimatorInput) -> float | None:
    """Minus the mean length of the logged episodes, weighted as in WIS: short episodes tend to succeed."""
    try:
        final = evidence.log.last(evidence.weights)
    except RefusalError:
        return None
    if np.isneginf(final).all():
        return None
    scaled = np.exp(final - final.max())
    return -float(scaled @ evidence.log.lengths / scaled.sum())
