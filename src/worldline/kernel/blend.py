"""How likely each wording is: the gate's mass on it and the wording model's probability, each as far as it is right.

p(wording) is proportional to mass^a * p^b; within a wording, the gate decides. Two numbers, fitted on held-out
episodes: a gate that is too sure of itself, or a wording model that it did not trust enough, is put right there. The
same for outcomes, of which the forecast says how likely each is: the gate is fitted to get texts right, values follow
from rewards and ends.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Array = npt.NDArray[np.float64]
_TINY = 1e-9
_PRIOR = 1.0
"""How many steps it takes to move an exponent by about one from where the gate alone is right."""


@dataclass(frozen=True)
class BlendedStep:
    """A held-out step: of each wording the gate's mass and the log-probability, which are right, and its weight."""

    mass: Array
    log_chances: Array
    right: Sequence[int]
    weight: float


class Blend(nn.Module):
    """The exponents `a` and `b`."""

    exponents: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("exponents", torch.tensor([1.0, 0.0], dtype=torch.float64))

    def chances(self, chances: Array, of: npt.NDArray[np.int64], log_chances: Array) -> Array:
        """The gate's probabilities of some candidates, blended. `of` is the wording of each, `log_chances` its own."""
        a, b = self.exponents.tolist()
        if of.max() == 0 or (a, b) == (1.0, 0.0):
            return chances
        mass = np.bincount(of, chances)[of] + _TINY
        blended: Array = chances / mass * np.exp(a * np.log(mass) + b * log_chances)
        blended /= blended.sum()
        return blended

    def fit(self, steps: Sequence[BlendedStep]) -> None:
        """The exponents that make the right wordings likeliest."""
        steps = [one for one in steps if 0 < len(one.right) < len(one.mass)]
        if not steps:
            return
        widest = max(len(one.mass) for one in steps)
        scores = torch.zeros(len(steps), widest, 2, dtype=torch.float64)
        real, right = torch.zeros(2, len(steps), widest, dtype=torch.bool)
        for at, one in enumerate(steps):
            n = len(one.mass)
            scores[at, :n, 0] = torch.from_numpy(np.log(one.mass + _TINY))
            scores[at, :n, 1] = torch.from_numpy(one.log_chances)
            real[at, :n] = True
            right[at, list(one.right)] = True
        weight = torch.tensor([one.weight for one in steps], dtype=torch.float64)
        exponents = self.exponents.clone().requires_grad_()
        optimizer = torch.optim.LBFGS([exponents], max_iter=50, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimizer.zero_grad()
            logits = scores @ exponents
            of_all, of_right = (logits.masked_fill(~some, -torch.inf).logsumexp(1) for some in (real, right))
            total = (weight * (of_all - of_right)).sum() + _PRIOR * (exponents - self.exponents).square().sum()
            total.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]  # torch gives it no types
        self.exponents.copy_(exponents.detach().clamp(0.0, 2.0))
