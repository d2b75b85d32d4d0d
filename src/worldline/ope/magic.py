"""MAGIC: a blend of partial importance sampling and model, from all model to all weights (Thomas & Brunskill 2016)."""

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from worldline.ope.estimators import Value, following
from worldline.ope.features import finite
from worldline.ope.intervals import bootstrap_means
from worldline.ope.log import Episodes, Matrix, RaggedLog, RefusalError, Steps
from worldline.ope.weights import cumulative, normalised, previous

BLENDS = 16
"""How many switch points j are tried, spread from 'model only' to 'weights only'."""

BAND = (0.25, 0.75)
"""Percentiles of the resampled WDR between which a blend counts as unbiased; WDR itself always does. With (.05, .95)
as elsewhere, more is left to the model: the same error and more regret on the logs of `bench coverage`."""


def magic(log: RaggedLog, gamma: float, weights: Steps, value: Value) -> Episodes:
    """MAGIC: sum_j x_j g^(j), x = argmin x'(covariance + bias bias')x on the simplex, g^(j) = WDR to step j, then V."""
    if log.episodes < 2:
        raise RefusalError("needs two episodes or more: the blend is chosen by their spread")
    returns = finite(partial_returns(log, gamma, weights, value), "the values that are blended")
    covariance = np.cov(returns, rowvar=False) / log.episodes
    complete = bootstrap_means(returns[:, -1:], log.tasks, replicates=200, seed=0)[:, 0]
    means = returns.mean(axis=0)
    low, high = np.quantile(complete, BAND)
    bias = means - np.clip(means, min(low, means[-1]), max(high, means[-1]))
    return returns @ simplex_minimum(covariance + np.outer(bias, bias))


def partial_returns(log: RaggedLog, gamma: float, weights: Steps, value: Value) -> Matrix:
    """g^(j) of every episode (rows) for each switch point j (columns): j = -1 is V(h_1), the last one WDR.

    Where the model takes over, the centred Bellman residuals of the steps that follow are added, as in `start_value`:
    the mean stays, and the spread knows that Q was fitted on episodes that scatter.
    """
    now = normalised(weights, weights[log.ends], log).weights
    before = normalised(previous(weights, log), weights[log.ends], log).weights
    discounts = log.discounts(gamma)
    step = discounts * (now * (log.rewards - value.q) + before * value.v)
    done = cumulative(step, log.offsets)
    model = discounts * before * value.v
    residual = discounts * (log.rewards + gamma * following(value.v, log) - value.q)
    columns = [_switched(int(j), done, model, before, residual, log) for j in _switch_points(log.horizon)]
    return np.stack(columns, axis=1)


def _switched(j: int, done: Steps, model: Steps, before: Steps, residual: Steps, log: RaggedLog) -> Episodes:
    """The weighted part of the first j steps, then the model's value of step j + 1 where the episode goes on."""
    last = np.minimum(j, log.lengths) - 1
    so_far = np.where(last >= 0, done[log.starts + np.maximum(last, 0)], 0.0)
    goes_on = log.lengths > j
    at = np.minimum(log.starts + j, log.steps - 1)
    rest = np.where(goes_on, model[at], 0.0)
    scatter = np.where(goes_on, before[at] * log.total(np.where(log.time >= j, residual, 0.0)), 0.0)
    return np.asarray(so_far + rest + scatter - scatter.mean())


def _switch_points(horizon: int) -> npt.NDArray[np.int64]:
    return np.unique(np.round(np.linspace(0, horizon, min(BLENDS, horizon + 1))).astype(np.int64))


def simplex_minimum(matrix: Matrix) -> npt.NDArray[np.float64]:
    """argmin x'Mx over x >= 0, sum x = 1, by non-negative least squares.

    For x = s u, u on the simplex, the penalised objective s^2 u'Mu + (s - 1)^2 has the same best u at every s > 0, so
    rescaling the NNLS solution is exact whatever the penalty.
    """
    scale = float(np.abs(matrix).max())
    if scale == 0:
        return np.full(len(matrix), 1 / len(matrix))
    eigenvalues, vectors = np.linalg.eigh(matrix / scale)
    root = np.sqrt(np.maximum(eigenvalues, 0))[:, None] * vectors.T
    solution, _ = nnls(np.vstack([root, np.ones(len(matrix))]), np.append(np.zeros(len(matrix)), 1.0))
    return np.asarray(solution / solution.sum())
