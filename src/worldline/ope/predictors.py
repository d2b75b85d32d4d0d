"""The trivial predictors: what an estimator must beat before its ranking means anything (ADWM notes, section 4.1)."""

import numpy as np

from worldline.ope.estimation import EstimatorInput
from worldline.ope.log import RefusalError
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
        closeness = np.minimum(exp(evidence.ratios), 1.0)
    except RefusalError:
        if evidence.target is None:
            return None
        closeness = np.exp(evidence.target.logprobs)
    log = evidence.log
    owner = np.repeat(log.policies, log.lengths)
    overlap = np.bincount(owner, closeness) / np.maximum(np.bincount(owner), 1)
    nearest = int(np.argmax(overlap))
    return float(log.returns(evidence.gamma)[log.policies == nearest].mean())


def episode_length(evidence: EstimatorInput) -> float | None:
    """Minus the mean length of the logged episodes, weighted as in WIS: short episodes tend to succeed."""
    try:
        final = evidence.weights[evidence.log.ends]
    except RefusalError:
        return None
    if np.isneginf(final).all():
        return None
    scaled = np.exp(final - final.max())
    return -float(scaled @ evidence.log.lengths / scaled.sum())
