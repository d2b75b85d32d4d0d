"""A world model's values, corrected by the logged episodes that are like each candidate's, as far as they say anything.

MAGIC (Thomas & Brunskill 2016) blends a model and importance weights by their estimated errors. This is the blend of
its two ends: the model alone, and the log, weighted as the candidate would have played. It needs one imagined value for
each logged start, and no value function. How far the model is wrong is estimated from what is expected of it
(`world_model_error`) and from the corrections of all candidates: by as much as they scatter more than their own errors
allow (random effects, Paule & Mandel 1982).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from worldline.ope.estimators import check_imagined, weighted_importance, weighted_per_decision
from worldline.ope.intervals import task_units
from worldline.ope.log import Episodes, RaggedLog, RefusalError, Steps
from worldline.ope.weights import NO_EVIDENCE, exp

_LEAST = 1e-12
"""No correction has a smaller variance."""
_EXPECTED = 3
"""As many corrections count as much as what was expected of the model."""


@dataclass(frozen=True, eq=False)
class ModelCorrection:
    """What the log says against the model's value of one candidate."""

    values: Episodes
    """Per episode; their mean is the correction."""
    sampled: float
    """Its variance by tasks."""
    unseen: float
    """What that does not show of its squared error."""

    @property
    def size(self) -> float:
        return float(self.values.mean())

    @property
    def squared_error(self) -> float:
        return max(self.sampled + self.unseen, _LEAST)


@dataclass(frozen=True, eq=False)
class CorrectedModel:
    """Values per episode, and what they rest on."""

    values: Episodes
    share: float
    """Of the correction that is taken: 0 is the model alone."""
    error: float
    """The standard error that resampling tasks does not show: the model's, and what the log lacks."""


def correction(log: RaggedLog, gamma: float, weights: Steps, imagined: Episodes) -> ModelCorrection:
    """WIS of the log, less the mean of what was imagined from the logged starts.

    Residuals of single starts would scatter less, and be wrong: the model was fitted on the log, so it errs least where
    logged episodes are like the candidate's. What a variance by tasks does not show: with few effective episodes, that
    of as many returns is the least (a few that are equal by chance count as if two more had been as far apart as
    returns are). A mean weight m < 1 says that 1 - m of the candidate's episodes are like none of the log: in these the
    model may be right, or err by as much as returns scatter. And where PDWIS, from the same weights, has another value,
    one of both is that far off.
    """
    check_imagined(log, imagined)
    final = log.last(weights)
    if np.isneginf(final).all():
        raise RefusalError(NO_EVIDENCE)
    values = weighted_importance(log, gamma, weights) - imagined.mean()
    size = float(values.mean())
    returns, squared_shares = log.returns(gamma), float(np.exp(2 * (final - logsumexp(final))).sum())
    scatter = max(float(returns.var()), float(np.ptp([*returns, *imagined])) ** 2 / (4 * (log.episodes + 2)))
    units = task_units(values[:, None], log.tasks)
    sampled = float(units.var(ddof=1) / len(units)) if len(units) > 1 else scatter
    missing = 1 - min(1.0, float(exp(logsumexp(final) - np.log(log.episodes))))
    unseen = max(0.0, scatter * squared_shares - sampled) + max(scatter, size**2) * missing**2
    unseen += (size + float(imagined.mean() - weighted_per_decision(log, gamma, weights).mean())) ** 2
    return ModelCorrection(values, sampled, unseen)


def model_variance(corrections: Sequence[ModelCorrection], expected: float) -> float:
    """The mean square of the model's error: the a at which sum_k size_k^2 / (a + b_k) is the number of corrections.

    b is a correction's own squared error. One that is precise has no more say than others once a exceeds its b. What
    was `expected` of a counts as much as `_EXPECTED` corrections of that square, without an error of their own.
    """
    squares = np.array([one.size**2 for one in corrections])
    errors = np.array([one.squared_error for one in corrections])
    count = len(squares) + _EXPECTED
    least = _EXPECTED * expected / count

    def excess(variance: float) -> float:
        of_expected = _EXPECTED * expected / variance if variance else 0.0
        return float((squares / (variance + errors)).sum() + of_expected - count)

    if not len(squares) or excess(least) <= 0:
        return least
    return float(brentq(excess, least, squares.sum() + expected))


def corrected_model(
    imagined: Episodes, against: ModelCorrection, variance: float, model_error: float
) -> CorrectedModel:
    """V + c times the correction: c = a / (a + b) has the least squared error a (1 - c)^2 + b c^2.

    Of these, a is the model's `variance`, b the correction's squared error. `model_error` is what the model's value is
    known to err by otherwise. The share itself is uncertain: for that the squared error has c (1 - c) times the squared
    correction.
    """
    share = variance / (variance + against.squared_error)
    squared = (1 - share) ** 2 * model_error**2 + share**2 * against.unseen + share * (1 - share) * against.size**2
    error = float(np.sqrt(squared))
    return CorrectedModel(imagined + share * against.values, share, error)
