"""What a step will earn, and whether it ends its episode, before anything is answered.

A candidate brings the outcome of its source. Where answers are worded in more ways than a log can show, similar texts
say little of which outcome is due: a log-linear model over all that was done and shown says that, and the gate learns
how far to trust it. One model is fitted for each half of the log, on the other half: a logged step is judged by the one
that has not seen it, a new step by both.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from scipy.special import log_softmax
from torch import Tensor, nn

from worldline.kernel.outcome_features import FORECAST_BUCKETS
from worldline.kernel.step_table import FOLDS
from worldline.kernel.vectors import distinct_columns, used_columns

Array = npt.NDArray[np.float64]
LEAST = -8.0
"""No outcome is held to be less likely than this, in nats."""
_VARIANCES = 0.01, 0.03, 0.1
"""Of a weight, before the log is read. The other half says which is right."""
_STEPS = 40


@dataclass(frozen=True)
class ForecastExercise:
    """A logged step: its features, and the class of its outcome."""

    fold: int
    features: npt.NDArray[np.int64]
    right: int
    weight: float


class Forecast(nn.Module):
    """log p(class of the outcome | history, action)."""

    tables: Tensor

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.register_buffer("tables", torch.zeros(FOLDS, FORECAST_BUCKETS, classes))

    def log_chances(self, features: npt.NDArray[np.int64], fold: int = -1) -> Array:
        """Of each class (C,); by the model that has not seen `fold`."""
        tables = self.tables.numpy()
        models = [fold] if fold >= 0 else range(len(tables))
        scores = sum(tables[model][features].sum(0, dtype=np.float64) for model in models) / len(models)
        out: Array = np.maximum(log_softmax(scores), LEAST)
        return out

    def fit(self, exercises: Sequence[ForecastExercise]) -> None:
        """Fit the model of each fold on the others, with the variance that makes the folds themselves likeliest."""
        classes = self.tables.shape[2]
        folds = np.array([one.fold for one in exercises])
        if classes < 2 or any(fold not in folds for fold in range(FOLDS)):
            return
        used, columns = used_columns(np.concatenate([one.features for one in exercises]), FORECAST_BUCKETS)
        starts = np.cumsum([0, *(len(one.features) for one in exercises)])
        features = csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(exercises), len(used)))
        features, distinct, many = distinct_columns(features)
        right, weights = np.array([one.right for one in exercises]), np.array([one.weight for one in exercises])

        def of_variance(variance: float) -> tuple[float, list[Array]]:
            """The nats of all steps, each by the model that has not seen its fold; the table of each fold."""
            tables, nats = list[Array](), 0.0
            for fold in range(FOLDS):
                own, others = folds == fold, folds != fold
                prior = variance * many[:, None].astype(np.float64)
                tables.append(_fitted(features[others], prior, right[others], weights[others], classes))
                log_chances = log_softmax(features[own] @ tables[-1], axis=1)
                nats -= float(weights[own] @ log_chances[np.arange(own.sum()), right[own]])
            return nats, tables

        _, tables = min((of_variance(variance) for variance in _VARIANCES), key=lambda one: one[0])
        for fold, table in enumerate(tables):
            self.tables[fold, torch.from_numpy(used)] = torch.from_numpy((table / many[:, None])[distinct]).float()


def _fitted(
    features: csr_matrix, variances: Array, right: npt.NDArray[np.int64], weights: Array, classes: int
) -> Array:
    """The likeliest table (F, C); `variances` (F, 1) are those of its weights, before the log is read."""
    from scipy.optimize import minimize  # slow to import, and only a fit needs it

    rows = np.arange(len(right))

    def loss(values: Array) -> tuple[float, Array]:
        table = values.reshape(-1, classes)
        log_chances = log_softmax(features @ table, axis=1)
        slopes = np.exp(log_chances)
        slopes[rows, right] -= 1
        slopes *= weights[:, None]
        nats = -weights @ log_chances[rows, right] + (np.square(table) / variances).sum() / 2
        return nats, (features.T @ slopes + table / variances).ravel()

    start = np.zeros(features.shape[1] * classes)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    fitted: Array = best.x.reshape(-1, classes)
    return fitted
