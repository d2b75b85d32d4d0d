"""Marginalised importance sampling on features: weights that do not multiply up over the whole episode.

`state_marginal` weights a step by how often the target visits such a state, `dice` finds those weights from a linear
balance equation without behaviour log-probs, `embedded_ratios` (MIPS) pools the ratio over actions that are alike.
"""

from typing import Annotated

import numpy as np
import numpy.typing as npt
from scipy import linalg

from worldline.ope.features import Ridge, finite
from worldline.ope.log import Episodes, Matrix, RaggedLog, Steps
from worldline.ope.values import PENALTY, regressed
from worldline.ope.weights import exp


def state_marginal(log: RaggedLog, gamma: float, ratios: Steps, states: Matrix, penalty: float = PENALTY) -> Episodes:
    """MIS: sum_t gamma^(t-1) w_t rho_t r_t, w_{t+1}(s') = E[w_t rho_t | s_{t+1} = s'], w_1 = 1 (Xie et al. 2019)."""
    ratio = exp(ratios)
    weights = np.ones(log.steps)
    for t in range(1, log.horizon):
        rows = log.starts[log.lengths > t] + t
        earned = weights[rows - 1] * ratio[rows - 1]
        weights[rows] = _positive(regressed(states[rows], earned, penalty), float(earned.mean()))
    return log.total(log.discounts(gamma) * weights * ratio * log.rewards)


def embedded_ratios(ratios: Steps, taken: Ridge) -> Steps:
    """MIPS: log of w(h, e) = E_b[rho | h, e], e the features of the action, not its text (Saito & Joachims 2022).

    Unbiased where the features say all of an action that matters; far less spread when many texts mean the same.
    """
    ratio = exp(ratios)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(_positive(taken.rows @ taken.weights(ratio), float(ratio.mean()))))


def _positive(weights: npt.NDArray[np.float64], mean: float) -> npt.NDArray[np.float64]:
    """Negative fits of a weight are 0, and the others are scaled to keep the mean: cutting one side only would bias."""
    cut = np.maximum(weights, 0.0)
    return np.asarray(cut * (mean / max(float(cut.mean()), 1e-300)))


def dice(log: RaggedLog, gamma: float, taken: Ridge, expected: Annotated[Matrix, "steps features"]) -> Episodes:
    """DICE: V(h_1) + sum_t w_t (r_t + gamma V_{t+1} - Q_t), Q and w = theta . phi from one linear system.

    The system is that of minimax weight learning with linear classes (Uehara et al. 2020), whose primal is LSTD-Q;
    weights and Q are joined as in double reinforcement learning (Kallus & Uehara 2020). Needs no behaviour log-probs.
    """
    after = np.zeros_like(expected)
    after[:-1] = expected[1:]
    after[log.ends] = 0.0
    factor = linalg.lu_factor(finite(taken.gram - gamma * taken.rows.T @ after, "the products of the text features"))
    q = linalg.lu_solve(factor, taken.rows.T @ log.rewards)
    theta = linalg.lu_solve(factor, expected[log.starts].sum(axis=0), trans=1)
    residual = log.rewards + gamma * (after @ q) - taken.rows @ q
    return np.asarray(expected[log.starts] @ q + log.total((taken.rows @ theta) * residual))
