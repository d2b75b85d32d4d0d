"""Linear value functions in closed form: the behaviour's value (DM), fitted Q evaluation, Q-Reg.

All are ridge regressions on `Features`; none needs torch, a learning rate or a seed. The episode's end, by the world or
by the step budget, is worth 0: the value is that of the episode within its budget.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from worldline.ope.estimators import Value, following
from worldline.ope.features import Ridge
from worldline.ope.log import Episodes, Matrix, RaggedLog, RefusalError, Steps
from worldline.ope.weights import LARGEST_LOG, NO_EVIDENCE, exp

PENALTY = 0.1


def behaviour_value(log: RaggedLog, gamma: float, states: Matrix) -> Episodes:
    """DM: V_b(h_1), the loggers' return regressed on the start; the same for every target (ADWM eq. 44)."""
    return regressed(states[log.starts], log.returns(gamma))


def regressed(rows: Matrix, y: npt.NDArray[np.float64], penalty: float = PENALTY) -> npt.NDArray[np.float64]:
    """`y` smoothed by ridge regression on `rows` and a constant: the mean of `y` is kept."""
    ridge = Ridge(np.hstack([np.ones((len(rows), 1)), rows]), penalty)
    return np.asarray(ridge.rows @ ridge.weights(y))


@dataclass(frozen=True, eq=False)
class LinearQ:
    """Q = phi . weights, kept within `low` and `high`."""

    weights: npt.NDArray[np.float64]
    low: float
    high: float

    def read(self, taken: Matrix, expected: Matrix) -> Value:
        """At steps with these features: of the logged action, and the mean over the target's."""
        return Value(*(np.clip(rows @ self.weights, self.low, self.high) for rows in (taken, expected)))


def linear_fqe(log: RaggedLog, gamma: float, taken: Ridge, expected: Annotated[Matrix, "steps features"]) -> LinearQ:
    """LFQE: q <- ridge regression of r_t + gamma V(h_{t+1}) on phi(h_t, a_t), V = expected phi . q (Le et al. 2019).

    As many sweeps as the longest episode has steps: after that every reward has reached the start. V is kept within a
    range of its own size around the logged returns-to-go: a linear backup can diverge off-policy. A tighter
    bound would cut off noise on one side only, and so bias every sparse reward upwards.
    """
    to_go = returns_to_go(log, gamma)
    low, high = min(float(to_go.min()), 0.0), max(float(to_go.max()), 0.0)
    low, high = low - (high - low), high + (high - low)
    v = np.zeros(log.steps)
    for _ in range(log.horizon):
        q = taken.weights(log.rewards + gamma * following(v, log))
        v = np.clip(expected @ q, low, high)
    return LinearQ(q, low, high)


FOLDS = 5


def cross_fitted(
    log: RaggedLog, gamma: float, taken: Ridge, expected: Annotated[Matrix, "steps features"], seed: int
) -> Value:
    """LFQE's value of each step by a fit on the tasks of other folds (Chernozhukov et al. 2018).

    What an episode adds to its own prediction is then no part of its correction.
    """
    distinct, tasks = np.unique(log.tasks, return_inverse=True)
    if len(distinct) < FOLDS:
        raise RefusalError(f"needs {FOLDS} tasks or more, to fit on others: there are {len(distinct)}")
    folds = np.random.default_rng(seed).permutation(len(distinct))[tasks] % FOLDS
    q, v = np.empty(log.steps), np.empty(log.steps)
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        rows, held = log.step_rows(outside), log.step_rows(inside)
        fit = linear_fqe(log.take(outside), gamma, Ridge(taken.rows[rows], taken.penalty), expected[rows])
        value = fit.read(taken.rows[held], expected[held])
        q[held], v[held] = value.q, value.v
    return Value(q, v)


def q_regression(
    log: RaggedLog,
    gamma: float,
    ratios: Steps,
    weights: Steps,
    taken: Ridge,
    expected: Annotated[Matrix, "steps features"],
) -> Value:
    """Q-Reg: Q = argmin sum gamma^(t-1) rho_{1:t} (R_t - Q_t)^2, R_t = r_t + gamma rho_{t+1} R_{t+1} (COBS).

    `ratios` is the log ratio of each step, `weights` its running sum.
    """
    if np.isneginf(weights).all():
        raise RefusalError(NO_EVIDENCE)
    returns = returns_to_go(log, gamma, ratios)
    importance = log.discounts(gamma) * np.exp(weights - weights.max())
    root = np.sqrt(importance * log.steps / importance.sum())
    q = Ridge(taken.rows * root[:, None], taken.penalty).weights(root * returns)
    return Value(taken.rows @ q, expected @ q)


def returns_to_go(log: RaggedLog, gamma: float, ratios: Steps | None = None) -> Steps:
    """R_t = r_t + gamma rho_{t+1} R_{t+1}, rho = 1 without `ratios`; backwards over time, all episodes at once."""
    factor = gamma * (np.ones(log.steps) if ratios is None else exp(ratios))
    result = log.rewards.copy()
    order = np.argsort(-log.time, kind="stable")
    counts = np.bincount(log.time)[::-1]
    for rows in np.split(order, np.cumsum(counts)[:-1]):
        before = rows[log.time[rows] > 0]
        largest = np.exp(LARGEST_LOG)
        result[before - 1] += np.clip(factor[before] * result[before], -largest, largest)
    return result
