"""The losses of PaW, as sums of token losses times precomputed weights (sections 2 and 3.2, eq. 1 and 5-9).

No function here takes a mean or a mask. Every token brings its own weight, worked out once over the whole mini-batch
(`objective.py`), so a sum over micro-batches, in any order, over any number of ranks, padded with weight 0, is the
loss of the mini-batch. Tensors may have any shape, as long as they agree.
"""

from typing import Literal

import torch
from torch import Tensor

WorldLoss = Literal["cmae", "mae", "ce"]
MOST_DIVERGENCE = 10.0


def policy_loss(
    logprob: Tensor,
    old_logprob: Tensor,
    advantage: Tensor,
    weight: Tensor,
    clip: float = 0.2,
    dual_clip: float = 3.0,
    *,
    clip_high: float | None = None,
    share: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """PPO's clipped surrogate; where the advantage is negative, a ratio beyond `dual_clip` earns no more gradient.

    The ratio is held in [1 - clip, 1 + clip_high] (DAPO's clip-higher; by default both are `clip`). `share` weighs the
    tokens in the logs, where that is not their weight in the loss.
    """
    counted = weight if share is None else share
    ratio = (logprob - old_logprob).clamp(-20, 20).exp()
    free = -advantage * ratio
    clipped = -advantage * ratio.clamp(1 - clip, 1 + (clip if clip_high is None else clip_high))
    pessimistic = torch.maximum(free, clipped)
    bounded = torch.minimum(pessimistic, -advantage * dual_clip)
    loss = torch.where(advantage < 0, bounded, pessimistic)
    logs = {
        "clip_fraction": ((clipped > free) * counted).sum().detach(),
        "dual_clip_fraction": (((advantage < 0) & (pessimistic > bounded)) * counted).sum().detach(),
        "approx_kl": ((old_logprob - logprob) * counted).sum().detach(),
    }
    return (loss * weight).sum(), logs


def kl_loss(logprob: Tensor, reference: Tensor, weight: Tensor) -> Tensor:
    """The k3 estimate of KL(policy || reference): r - log r - 1 with r = reference / policy. Never negative.

    Held at 10 per token, as in verl: r grows without bound where the policy gave up a token, and one such token would
    be the whole gradient of its mini-batch.
    """
    log_ratio = (reference - logprob).clamp(-20, 20)
    return ((torch.expm1(log_ratio) - log_ratio).clamp(max=MOST_DIVERGENCE) * weight).sum()


def entropy_bonus(entropy: Tensor, weight: Tensor) -> Tensor:
    """What is subtracted from the loss, times its coefficient."""
    return (entropy * weight).sum()


def value_loss(value: Tensor, old_value: Tensor, target: Tensor, weight: Tensor, clip: float = 0.5) -> Tensor:
    """Half the squared error, of the value or of the value held within `clip` of the old one: the worse of the two."""
    held = old_value + (value - old_value).clamp(-clip, clip)
    return (0.5 * torch.maximum((value - target).square(), (held - target).square()) * weight).sum()


def world_model_loss(
    logprob: Tensor,
    weight: Tensor,
    kind: WorldLoss = "cmae",
    rho: float = 0.2,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Next-observation loss over target tokens, each weighing its row's weight / |o_{t+1}|: ALL of them count there.

    `cmae`: m (1 - p) with m = 1[p <= rho], no gradient through m (eq. 7-9). `mae`: 1 - p. `ce`: -log p (eq. 5).
    """
    p = logprob.exp()
    kept = (p <= rho).detach()
    match kind:
        case "cmae":
            loss = kept * (1 - p)
        case "mae":
            loss = 1 - p
        case "ce":
            loss = -logprob
    return (loss * weight).sum(), {"clipped": (~kept).sum()}


def logit_gradient(logprob: Tensor, kind: WorldLoss = "cmae", rho: float = 0.2) -> Tensor:
    """|d loss / d target logit| of each token: what the noise diagnostic compares (appendix A.4)."""
    p = logprob.exp()
    match kind:
        case "cmae":
            return (p <= rho) * p * (1 - p)
        case "mae":
            return p * (1 - p)
        case "ce":
            return 1 - p
