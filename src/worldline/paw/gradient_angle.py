"""Do the two losses pull the same way? The gradients of policy and world model, each alone, and their cosine.

A cosine near 0 says that what is learned of the world touches other directions of the weights than the policy's; below
0, that one undoes what the other does. Measured on one mini-batch, before the update's first step; costs two more
passes over it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from worldline.paw import loss
from worldline.paw.gradient import Experience, Term, UpdateConfig, gradient


def gradient_angle(
    learner: Any,
    optimizer: Any,
    experience: Experience,
    chosen: Sequence[int],
    config: UpdateConfig,
    accelerator: Any,
    *,
    kind: loss.WorldLoss = "cmae",
    rho: float = 0.2,
) -> dict[str, float]:
    """|g_policy|, |g_world| and g_policy . g_world / (|g_policy| |g_world|), before any clipping; 0 where one is 0."""
    experience = experience.to(accelerator.device)

    def alone(term: Term) -> list[Tensor]:
        optimizer.zero_grad(set_to_none=True)
        gradient(learner, experience, chosen, config, accelerator, kind=kind, rho=rho, terms=(term,))
        trained = (weight for weight in learner.parameters() if weight.requires_grad)
        return [torch.zeros_like(w) if w.grad is None else w.grad.detach().clone() for w in trained]

    policy, world = alone("policy"), alone("world")
    optimizer.zero_grad(set_to_none=True)
    norms = [_dot(slopes, slopes) ** 0.5 for slopes in (policy, world)]
    both = norms[0] * norms[1]
    return {
        "grad_norm_policy": norms[0],
        "grad_norm_world": norms[1],
        "grad_cosine": _dot(policy, world) / both if both else 0.0,
    }


def _dot(one: Sequence[Tensor], other: Sequence[Tensor]) -> float:
    total = 0.0
    for left, right in zip(one, other, strict=True):
        product = (left * right).sum()
        total += float(product.full_tensor() if isinstance(product, DTensor) else product)
    return total
