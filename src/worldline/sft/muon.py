"""Muon: momentum whose matrices are made orthogonal before each step (Jordan 2024).

As `torch.optim.Muon`, which orthogonalises in bfloat16 on every machine. A CPU without bfloat16 units needs a hundred
times as long for such a product, so here a CPU computes in the matrix's own precision; a GPU in bfloat16, as there.
"""

import math
from collections.abc import Iterable
from typing import Any, overload

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic iteration: steepest at zero, so that five rounds bring all singular values near one."""
ROUNDS = 5


class Muon(torch.optim.Optimizer):
    """For the hidden matrices of a network; everything else belongs to AdamW."""

    def __init__(self, params: Iterable[Any], lr: float, weight_decay: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Any) -> float: ...
    @torch.no_grad()
    def step(self, closure: Any = None) -> float | None:
        """Move every matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                average = state["momentum_buffer"].lerp_(matrix.grad, 1 - group["momentum"])
                direction = orthogonal(matrix.grad.lerp(average, group["momentum"]))
                rows, columns = matrix.shape
                matrix.mul_(1 - group["lr"] * group["weight_decay"])
                matrix.add_(direction, alpha=-group["lr"] * math.sqrt(max(1, rows / columns)))
        return None


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """The matrix with its singular values brought near one (between .5 and 1.5), by Newton-Schulz iteration."""
    a, b, c = COEFFICIENTS
    wide = matrix.bfloat16() if matrix.is_cuda else matrix
    tall = wide.shape[0] > wide.shape[1]
    wide = wide.T if tall else wide
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(ROUNDS):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return (wide.T if tall else wide).to(matrix.dtype)
