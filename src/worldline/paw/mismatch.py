"""Sampler and learner never agree to the last bit: how far they are apart, and what corrects for it.

An engine that samples with other kernels, other batches or another precision than the learner's draws from a policy a
little off the one that is trained, and one with older weights from one further off. The correction is truncated
importance sampling: each token's policy loss is weighed by min(learner / sampler, cap). The losses are linear in the
advantage, and a positive weight changes no clipping, so weighing the advantages is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Correction:
    """The weight of every response token, and how far apart the two policies are."""

    weights: Tensor  # (actions,)
    metrics: dict[str, float]


def correct(sampler: Tensor, learner: Tensor, cap: float) -> Correction:
    """Truncated importance weights from both log-probs of the sampled tokens, (actions,); cap 0: all weights are 1.

    `mismatch_kl` is the k3 estimate of KL(sampler || learner): r - 1 - log r with r = learner / sampler, at least 0.
    """
    apart = learner - sampler
    ratio = apart.clamp(-20, 20).exp()
    weights = ratio.clamp(max=cap) if cap else torch.ones_like(ratio)
    return Correction(
        weights,
        {
            "mismatch_mean": float(apart.abs().mean()),
            "mismatch_max": float(apart.abs().max()),
            "mismatch_kl": float((ratio - 1 - apart.clamp(-20, 20)).mean()),
            "mismatch_capped": float((ratio > cap).float().mean()) if cap else 0.0,
        },
    )


def oldest(policies: Sequence[str], present: int) -> int:
    """How many updates the oldest of the `policies`, called update-N, is behind update `present`."""
    return max(present - int(name.removeprefix("update-")) for name in policies)
