"""How wrong may the log-probabilities be before the ranking of two policies changes? One number, Gamma.

The weight of every episode may be off by any factor between 1/Gamma and Gamma: because its log-probs are wrong, or
because the logger acted on something that the log does not show (the marginal sensitivity model, Tan 2006; Kallus &
Zhou 2020). Gamma is the smallest for which the two self-normalised values could meet. Each policy's weights are
perturbed on their own, although both share a behaviour policy: the true number is this one or larger.
"""

from dataclasses import dataclass

import numpy as np

from worldline.ope.log import Episodes

LARGEST = 1e6


@dataclass(frozen=True)
class Sensitivity:
    """The ranking of `a` over `b` holds while weights are right within the factor `gamma`; 1: it does not hold."""

    a: str
    b: str
    gamma: float
    nats_per_step: float
    """The same as an error of the log-probs, spread over a mean episode."""


def sensitivity(
    a: str, b: str, weights: tuple[Episodes, Episodes], returns: Episodes, mean_length: float
) -> Sensitivity:
    """`weights` are log rho_{1:T} of the two policies."""
    first, second = (np.exp(each - each.max()) for each in weights)

    def apart(factor: float) -> bool:
        return extreme(first, returns, factor) > -extreme(second, -returns, factor)

    low, high = 0.0, float(np.log(LARGEST))
    if not apart(1.0):
        high = 0.0
    elif apart(LARGEST):
        low = high
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if apart(float(np.exp(middle))) else (low, middle)
    return Sensitivity(a, b, float(np.exp(low)), low / mean_length)


def extreme(weights: Episodes, returns: Episodes, factor: float) -> float:
    """The smallest sum w x / sum w over weights within `factor` of the given ones.

    The minimum of a ratio of linear functions over a box lies at a corner, and that corner raises the weights of all
    returns below some value and lowers the others: every cut is tried, by running sums.
    """
    order = np.argsort(returns, kind="stable")
    w, x = weights[order], returns[order]
    mass, value = np.concatenate([[0.0], np.cumsum(w)]), np.concatenate([[0.0], np.cumsum(w * x)])
    masses = factor * mass + (mass[-1] - mass) / factor
    return float((((factor * value) + (value[-1] - value) / factor) / masses).min())
