"""Credit assignment: how much better than expected each action was (PaW section 2, eq. 1).

GRPO, GiGPO, RLOO and PPO as pure functions over step rows, one row per environment step. `returns` is the episode's
return, repeated on every row of its trajectory; `penalties` is what that row alone pays for an invalid action
(zero or negative); `groups` and `trajectories` are integer labels. GiGPO's anchor labels come from `anchors`.

Statistics have two presets. `textbook` takes them over trajectories, and adds the penalty to the finished advantage:
a group or anchor state in which every episode failed has no spread, and must not turn a small penalty into a large
advantage, or the policy would learn to be valid and nothing else. `verl_agent` takes them over all step rows, penalties
included, as the code base of the published figures does, so that longer trajectories weigh more. A row without others
to compare with gets 0.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

EPSILON = 1e-6

Statistics = Literal["textbook", "verl_agent"]
Norm = Literal["mean_std", "mean"]


def grpo(
    returns: Tensor,  # (rows,)
    penalties: Tensor,  # (rows,)
    groups: Tensor,  # (rows,)
    trajectories: Tensor,  # (rows,)
    statistics: Statistics = "textbook",
    norm: Norm = "mean_std",
) -> Tensor:  # (rows,)
    """A = (R - mean_g) / (std_g + 1e-6), std with Bessel's correction."""
    if statistics == "verl_agent":
        return _relative(returns + penalties, groups, norm)
    first, back = _representatives(trajectories)
    return _relative(returns[first], groups[first], norm)[back] + penalties


def rloo(
    returns: Tensor,  # (rows,)
    penalties: Tensor,  # (rows,)
    groups: Tensor,  # (rows,)
    trajectories: Tensor,  # (rows,)
    statistics: Statistics = "textbook",
) -> Tensor:  # (rows,)
    """A = n/(n-1) (R - mean_g): each return against the mean of the others."""
    if statistics == "verl_agent":
        return _leave_one_out(returns + penalties, groups)
    first, back = _representatives(trajectories)
    return _leave_one_out(returns[first], groups[first])[back] + penalties


def gigpo(
    returns: Tensor,  # (rows,)
    penalties: Tensor,  # (rows,)
    step_returns: Tensor,  # (rows,)
    groups: Tensor,  # (rows,)
    trajectories: Tensor,  # (rows,)
    anchors: Tensor,  # (rows,)
    omega: float = 1.0,
    statistics: Statistics = "textbook",
    norm: Norm = "mean_std",
) -> Tensor:  # (rows,)
    """A = A_episode + omega A_step, with A_step relative to the other rows that acted from the same anchor state."""
    episode = grpo(returns, penalties, groups, trajectories, statistics, norm)
    paid = step_returns + penalties if statistics == "verl_agent" else step_returns
    return episode + omega * _relative(paid, anchors, norm)


def step_returns(
    rewards: Tensor,  # (rows,)
    trajectories: Tensor,  # (rows,) rows of a trajectory in time order, though not necessarily adjacent
    gamma: float = 0.95,
) -> Tensor:  # (rows,)
    """G_t = r_t + gamma G_{t+1} within each trajectory."""
    ahead: dict[int, float] = {}
    backwards: list[float] = []
    for reward, trajectory in zip(reversed(rewards.tolist()), reversed(trajectories.tolist()), strict=True):
        ahead[trajectory] = reward + gamma * ahead.get(trajectory, 0.0)
        backwards.append(ahead[trajectory])
    return rewards.new_tensor(backwards[::-1])


@dataclass(frozen=True, slots=True)
class TokenCredit:
    """PPO's credit: one advantage and one value target per response token."""

    advantages: Tensor  # (rows, tokens)
    returns: Tensor  # (rows, tokens)


def gae(
    scores: Tensor,  # (rows,) episode return plus penalty, paid at the row's last token
    values: Tensor,  # (rows, tokens)
    mask: Tensor,  # (rows, tokens) 1 on response tokens, which come first, 0 on padding
    gamma: float = 1.0,
    lam: float = 1.0,
) -> TokenCredit:
    """Generalised advantage estimation inside one response; advantages whitened over all tokens of the update."""
    last = mask.sum(dim=1).long() - 1
    advantages = torch.zeros_like(values)
    ahead = next_value = torch.zeros_like(scores)
    for token in range(values.shape[1] - 1, -1, -1):
        reward = torch.where(last == token, scores, 0.0)
        here = reward + gamma * next_value - values[:, token] + gamma * lam * ahead
        advantages[:, token] = ahead = here * mask[:, token]
        next_value = values[:, token] * mask[:, token]
    return TokenCredit(whiten(advantages, mask), (advantages + values) * mask)


def whiten(values: Tensor, mask: Tensor) -> Tensor:
    """Zero mean and unit variance over the masked places, 0 elsewhere."""
    count = mask.sum().clamp(min=1)
    mean = (values * mask).sum() / count
    variance = ((values - mean).square() * mask).sum() / (count - 1).clamp(min=1)
    return (values - mean) * (variance + 1e-8).rsqrt() * mask


def _relative(scores: Tensor, labels: Tensor, norm: Norm) -> Tensor:
    """Each score against those that share its label."""
    index, count = _counted(labels)
    centred = scores - _total(scores, index, len(count))[index] / count[index]
    if norm == "mean_std":
        variance = _total(centred.square(), index, len(count)) / (count - 1).clamp(min=1)
        centred = centred / (variance.sqrt()[index] + EPSILON)
    return torch.where(count[index] > 1, centred, 0.0)


def _leave_one_out(scores: Tensor, labels: Tensor) -> Tensor:
    index, count = _counted(labels)
    n = count[index]
    centred = scores - _total(scores, index, len(count))[index] / n
    return torch.where(n > 1, centred * n / (n - 1).clamp(min=1), 0.0)


def _counted(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Labels renumbered from 0, and how often each occurs."""
    _, index, count = torch.unique(labels, return_inverse=True, return_counts=True)
    return index, count


def _total(values: Tensor, index: Tensor, size: int) -> Tensor:
    return torch.zeros(size, dtype=values.dtype, device=values.device).index_add_(0, index, values)


def _representatives(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Some row of each label (all of its rows say the same), and for every row the place of its label among them."""
    index, count = _counted(labels)
    rows = torch.arange(len(labels), device=labels.device)
    return torch.empty_like(count).scatter_(0, index, rows), index
