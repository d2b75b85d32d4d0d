"""A world model's value, corrected by the logged episodes that are like the candidate's, as far as they say anything.

MAGIC (Thomas & Brunskill 2016) blends a model and importance weights by their estimated errors. This is the blend of
its two ends: the model alone, and the model with its residuals on the log, weighted as the candidate would have played.
It needs one imagined value for each logged start, and no value function.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from worldline.ope.intervals import task_units
from worldline.ope.log import Episodes, RaggedLog, RefusalError, Steps
from worldline.ope.weights import exp, left_out


@dataclass(frozen=True, eq=False)
class CorrectedModel:
    """Values per episode, and what they rest on."""

    values: Episodes
    share: float
    """Of the correction that is taken: 0 is the model alone."""
    error: float
    """The standard error that resampling tasks does not show: the model's, and what the log lacks."""


def corrected_model(
    log: RaggedLog, gamma: float, weights: Steps, imagined: Episodes, model_error: float
) -> CorrectedModel:
    """V + c sum_i w_i (G_i - V_i) / sum_i w_i, V imagined from each logged start, w the weights of whole episodes.

    The share c = a / (a + b) minimises the squared error a (1 - c)^2 + b c^2 of the sum, where a is the square of
    `model_error`, the model's error on policies of known value, and b that of the correction: its variance, which is at
    least that of as many residuals as there are effective episodes, and the bias by what the log lacks. A mean weight
    m < 1 says that 1 - m of the candidate's episodes are like none of the log; the model's error in these may differ
    from that in the others by as much as residuals scatter.
    """
    if len(imagined) != log.episodes:
        raise RefusalError(
            f"{len(imagined)} imagined returns for {log.episodes} logged starts: one per episode is needed"
        )
    final = log.last(weights)
    if np.isneginf(final).all():
        return CorrectedModel(imagined, 0.0, model_error)
    shares = np.exp(final - logsumexp(final))
    residuals = log.returns(gamma) - imagined
    correction = float(shares @ residuals)
    influence = log.episodes * shares * (residuals - correction) * left_out(shares)
    units = task_units(influence[:, None], log.tasks)
    sampled = float(units.var(ddof=1) / len(units)) if len(units) > 1 else np.inf
    scatter, mean_weight = float(residuals.var()), float(exp(logsumexp(final) - np.log(log.episodes)))
    unseen = max(0.0, scatter * float(shares @ shares) - sampled) + scatter * (1 - min(1.0, mean_weight)) ** 2
    total = model_error**2 + sampled + unseen
    share = model_error**2 / total if total > 0 else 0.0
    values = imagined + share * (correction + influence - influence.mean())
    return CorrectedModel(values, share, float(np.hypot((1 - share) * model_error, share * np.sqrt(unseen))))
