"""How wrong may the log-probabilities be before the ranking of two policies changes? As a factor, and in nats a step.

The weight of every episode may be off by any factor between 1/Gamma and Gamma: because its log-probs are wrong, or
because the logger acted on something that the log does not show (the marginal sensitivity model, Tan 2006; Kallus &
Zhou 2020). Gamma is the smallest for which the two self-normalised values could meet. Log-probs that are wrong by x
nats a step put the weight of an episode of L steps off by e^(x L): long episodes by more than short ones, so that is a
search of its own. Each policy's weights are perturbed on their own, although both share a behaviour policy: the true
numbers are these or larger.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.ope.log import Episodes

LARGEST = 1e6


@dataclass(frozen=True)
class Sensitivity:
    """The ranking of `a` over `b` holds while weights are right within the factor `gamma`; 1: it does not hold."""

    a: str
    b: str
    gamma: float
    nats_per_step: float
    """It holds while no step's log-ratio is wrong by more than that, either."""


def sensitivity(
    a: str, b: str, weights: tuple[Episodes, Episodes], returns: Episodes, lengths: npt.NDArray[np.int64]
) -> Sensitivity:
    """`weights` are log rho_{1:T} of the two policies, `lengths` the episodes' steps."""
    first, second = (np.exp(each - each.max()) for each in weights)

    def apart(off: Episodes) -> bool:
        return extreme(first, returns, np.exp(off)) > -extreme(second, -returns, np.exp(off))

    most = float(np.log(LARGEST))
    gamma = float(np.exp(largest(lambda off: apart(np.full(len(returns), off)), most)))
    steps = np.maximum(lengths, 1)
    return Sensitivity(a, b, gamma, largest(lambda off: apart(off * steps), most / float(steps.max())))


def largest(holds: Callable[[float], bool], most: float) -> float:
    """The largest number up to `most` for which it holds, where it holds for all smaller ones; 0 where for none."""
    if not holds(0.0):
        return 0.0
    if holds(most):
        return most
    low, high = 0.0, most
    while high - low > 1e-5 * most:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def extreme(weights: Episodes, returns: Episodes, factors: Episodes) -> float:
    """The smallest sum w x / sum w over weights that are each within its factor of the given ones.

    The minimum of a ratio of linear functions over a box lies at a corner, and that corner raises the weights of all
    returns below some value and lowers the others: every cut is tried, by running sums.
    """
    order = np.argsort(returns, kind="stable")
    x, raised, lowered = returns[order], (weights * factors)[order], (weights / factors)[order]
    masses = _cut_sums(raised, lowered)
    return float((_cut_sums(raised * x, lowered * x) / masses).min())


def _cut_sums(before: Episodes, after: Episodes) -> Episodes:
    """Of every cut, the sum of the one array up to it and of the other from it on."""
    up_to = np.concatenate([[0.0], np.cumsum(before)])
    gone = np.concatenate([[0.0], np.cumsum(after)])
    return np.asarray(up_to + (gone[-1] - gone))
