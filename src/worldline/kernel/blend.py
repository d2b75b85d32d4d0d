"""How likely each kind of outcome is, and each wording: the gate's mass on it and a model's probability, as far as
each is right.

p is proportional to mass^a * p^b, first for the kinds of outcome, then for the wordings within a kind; within a wording
the gate decides. Two numbers each, fitted on held-out episodes: a gate that is too sure of itself, or a model that it
did not trust enough, is put right there. A gate that cannot know which of three sentences says no is too sure of one of
them, and may still be right that it is a no.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]
_TINY = 1e-9
_LEAST = 1e-300
"""Mass of a group without any."""
_RANGE = 0.0, 2.0
"""Of an exponent."""


@dataclass(frozen=True)
class Levels:
    """The candidates of a step by kind of outcome, and by wording within a kind.

    Kinds and pairs of kind and wording are numbered from 0; the log-probabilities are those of each candidate's.
    """

    kinds: Ids
    pairs: Ids
    log_kinds: Array
    log_pairs: Array


def levels(kinds: Ids, of: Ids, chances: Array, log_wordings: npt.NDArray[np.float32]) -> Levels:
    """The levels of candidates with these kinds of outcome and wordings `of`.

    What the wording model gives to a wording is shared among its kinds as the gate's `chances` share it.
    """
    kinds = np.unique(kinds, return_inverse=True)[1]
    pairs = np.unique(kinds * (of.max() + 1) + of, return_inverse=True)[1]
    share = (chances + _TINY) / (np.bincount(of, chances + _TINY)[of])
    given = np.exp(log_wordings.astype(np.float64)) * share
    return Levels(kinds, pairs, *(np.log(np.bincount(level, given))[level] for level in (kinds, pairs)))


@dataclass(frozen=True)
class BlendedStep:
    """A held-out step: of each group the gate's mass and the log-probability, which was right, and its weight."""

    mass: Array
    log_chances: Array
    right: int
    weight: float


class Blend(nn.Module):
    """The exponents `a` and `b`."""

    exponents: Tensor

    def __init__(self, prior: float = 1.0, least: float = 0.0) -> None:
        """`prior` is how many steps it takes to move an exponent by about one from where the gate alone is right.

        `least` is the gain in nats per step that it takes to move them at all: what is flattened adds up over steps.
        """
        super().__init__()
        self._prior, self._least = prior, least
        self.register_buffer("exponents", torch.tensor([1.0, 0.0], dtype=torch.float64))

    def chances(self, chances: Array, of: Ids, log_chances: Array, within: Ids | None = None) -> Array:
        """The gate's probabilities of some candidates, blended. `of` is the group of each, `log_chances` its own.

        `within`: larger groups that keep the mass they have.
        """
        a, b = self.exponents.tolist()
        if of.max() == 0 or (a, b) == (1.0, 0.0):
            return chances
        mass = np.bincount(of, chances)[of] + _TINY
        blended: Array = chances / mass * np.exp(a * np.log(mass) + b * log_chances)
        larger = np.zeros_like(of) if within is None else within
        blended *= (np.bincount(larger, chances) / np.maximum(np.bincount(larger, blended), _LEAST))[larger]
        return blended

    def fit(self, steps: Sequence[BlendedStep]) -> None:
        """The exponents that make the right groups likeliest."""
        steps = [one for one in steps if one.right >= 0 and len(one.mass) > 1]
        if not steps:
            return
        widest = max(len(one.mass) for one in steps)
        scores, real = np.zeros((len(steps), widest, 2)), np.zeros((len(steps), widest), np.bool_)
        for at, one in enumerate(steps):
            n = len(one.mass)
            scores[at, :n, 0], scores[at, :n, 1] = np.log(one.mass + _TINY), one.log_chances
            real[at, :n] = True
        right, weight = np.array([one.right for one in steps]), np.array([one.weight for one in steps])
        start = self.exponents.numpy()

        def nats(exponents: Array) -> tuple[float, Array]:
            """Of all steps, and the gradient."""
            logits = np.where(real, scores @ exponents, -np.inf)
            chances = np.exp(logits - logits.max(1, keepdims=True))
            chances /= chances.sum(1, keepdims=True)
            at = np.arange(len(steps)), right
            slope = np.einsum("sw,swe->se", chances, scores) - scores[at]
            return -float(weight @ np.log(chances[at] + _TINY)), weight @ slope

        def loss(exponents: Array) -> tuple[float, Array]:
            total, slope = nats(exponents)
            away = exponents - start
            return total + self._prior * float(away @ away), slope + 2 * self._prior * away

        best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[_RANGE] * 2).x
        if nats(start)[0] - nats(best)[0] >= self._least * weight.sum():
            self.exponents.copy_(torch.from_numpy(best))
