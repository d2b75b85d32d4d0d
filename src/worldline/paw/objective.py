"""How the two losses are balanced (PaW sections 3.3 and 3.4, eq. 10 and 11).

L = mean over groups g of [L_RL(g) + lambda_g * mean over the selected transitions of g of L_WM]. The second term is a
mean of means; written as one weight per row it is a plain sum, which no micro-batch, order, padding or number of
ranks can change. A group without a selected transition drops its term, and still counts as a group.
"""

from typing import Literal

import torch
from torch import Tensor

Coefficient = Literal["adaptive", "constant", "schedule", "failed"]
_EQUAL = 1e-9
"""Returns that differ by less are equal: sums of the same rewards in another order may."""


def adaptive_coefficients(
    returns: Tensor,  # (trajectories,) as the environment paid them: no invalid-action penalty
    groups: Tensor,  # (trajectories,) numbered from 0
    max_return: float,
) -> Tensor:  # (groups,)
    """lambda_g = clip(1 - mean return of g / R_max, 0, 1): the worse a group does, the more it learns of the world."""
    count = torch.bincount(groups)
    mean = torch.zeros(len(count), dtype=returns.dtype).index_add_(0, groups, returns) / count.clamp(min=1)
    return (1 - mean / max_return).clamp(0, 1)


def failed_coefficients(
    returns: Tensor,  # (trajectories,) as the environment paid them: no invalid-action penalty
    groups: Tensor,  # (trajectories,) numbered from 0
    max_return: float,
) -> Tensor:  # (groups,)
    """lambda_g = 1 where all of g have the same return below R_max, 0 elsewhere. Not the paper's.

    Returns without a spread give GRPO no gradient, so such a group teaches the policy nothing (but penalties).
    """
    unset = returns.new_zeros(int(groups.max()) + 1)
    low = unset.scatter_reduce(0, groups, returns, "amin", include_self=False)
    high = unset.scatter_reduce(0, groups, returns, "amax", include_self=False)
    return ((high - low <= _EQUAL) & (high < max_return - _EQUAL)).to(returns.dtype)


def scheduled_coefficient(start: float, end: float, update: int, updates: int) -> float:
    """Linear from `start` at the first update to `end` at the last."""
    return start + (end - start) * (update / max(1, updates - 1))


def world_weights(
    selected: Tensor,  # (rows,) bool
    groups: Tensor,  # (rows,) numbered from 0
    coefficients: Tensor,  # (groups,)
) -> Tensor:  # (rows,)
    """lambda_g / (|G| |S_g|) on selected rows, 0 elsewhere: sum_r w_r L_WM(r) is eq. 11's second term."""
    size = torch.bincount(groups[selected], minlength=len(coefficients)).clamp(min=1)
    return torch.where(selected, (coefficients / (len(coefficients) * size))[groups], 0.0)


def echo_weights(
    targets: Tensor,  # (rows,) observation tokens of each row
    coefficient: float,
) -> Tensor:  # (rows,)
    """ECHO: a token mean over all observation tokens of the update, times a constant.

    Row r weighs c |o_r| / sum_s |o_s|; spread over its |o_r| tokens, every token weighs c / sum_s |o_s|.
    """
    return coefficient * targets.double() / targets.sum().clamp(min=1)
