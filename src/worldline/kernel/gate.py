"""The learned weight of each candidate: small scorers over features, fitted by the likelihood of what was answered.

p(candidate) is the mean over several scorers, each proportional to exp(linear + tanh layer): they begin with other
weights, and where they disagree, the log does not decide. The loss of a step is minus the log of the mass on candidates
with the right text, weighed by how well their source's end and reward agree with what happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Array = npt.NDArray[np.float32]
SCORERS, HIDDEN = 3, 16
_STEPS, _BATCH, _RATE, _DECAY, _EVERY = 500, 128, 1e-2, 0.02, 25
_FLOOR = 1e-3
"""Mass that an answer outside the candidates is granted, so that one miss does not rule the fit."""


@dataclass(frozen=True)
class Exercise:
    """A logged step: features of its candidates, and how right each of them is, 0 to 1."""

    episode: int
    features: Array
    credit: Array
    weight: float = 1.0


class Gate(nn.Module):
    """Scorers of candidates: every weight has one row for each of them."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, likelihoods: slice = slice(0)) -> None:
        """`likelihoods` are features that are log-likelihoods: the fit begins with half of what they say."""
        super().__init__()
        self._likelihoods = likelihoods
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.linear = nn.Parameter(torch.zeros(SCORERS, size, 1))
        self.hidden = nn.Parameter(torch.zeros(SCORERS, size, HIDDEN))
        self.bias = nn.Parameter(torch.zeros(SCORERS, 1, HIDDEN))
        self.out = nn.Parameter(torch.zeros(SCORERS, HIDDEN, 1))

    def _learn_scale(self, features: Tensor) -> None:
        self.mean.copy_(features.mean(0))
        self.scale.copy_(features.std(0) + 0.05)

    def _scaled(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale

    def _scores(self, scaled: Tensor) -> Tensor:
        """Of each scorer: (N, F) or (SCORERS, N, F) -> (SCORERS, N)."""
        return (scaled @ self.linear + torch.tanh(scaled @ self.hidden + self.bias) @ self.out).squeeze(-1)

    @torch.no_grad()
    def chances(self, features: Array, sizes: Sequence[int]) -> list[npt.NDArray[np.float64]]:
        """Probabilities of the candidates of several steps, one below the other; `sizes` of them for each step."""
        scores = self._scores(self._scaled(torch.from_numpy(features))).double()
        return [part.softmax(1).mean(0).numpy() for part in torch.split(scores, list(sizes), 1)]

    def fit(
        self, exercises: Sequence[Exercise], held_out: frozenset[int], seed: int, steps: int | None = None
    ) -> float:
        """Fit on all episodes but those held out, where it is stopped; the held-out loss in nats per step."""
        steps = _STEPS if steps is None else steps
        training = _packed([one for one in exercises if one.episode not in held_out])
        testing = _packed([one for one in exercises if one.episode in held_out])
        self._learn_scale(training.features[training.real])
        with torch.no_grad():
            self.linear[:, self._likelihoods, 0] = 0.5 * self.scale[self._likelihoods]
        for one in (training, testing):  # in place: they are large
            one.features.sub_(self.mean).div_(self.scale)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.hidden, std=len(self.mean) ** -0.5, generator=generator)
        nn.init.uniform_(self.bias, -(len(self.mean) ** -0.5), len(self.mean) ** -0.5, generator=generator)
        optimizer = torch.optim.AdamW(self.parameters(), lr=_RATE, weight_decay=_DECAY, foreach=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
        best = torch.full((SCORERS,), torch.inf)
        kept = [value.detach().clone() for value in self.parameters()]
        for step in range(steps):
            batch = torch.randint(
                len(training.weight), (SCORERS, min(_BATCH, len(training.weight))), generator=generator
            )
            optimizer.zero_grad()
            self._losses(training.rows(batch)).sum().backward()  # type: ignore[no-untyped-call]  # torch gives no types
            optimizer.step()
            schedule.step()
            if (step + 1) % _EVERY == 0:
                with torch.no_grad():
                    losses = self._losses(testing)
                    better = losses < best  # each scorer stops at its own best
                    best = torch.where(better, losses, best)
                    for value, saved in zip(self.parameters(), kept, strict=True):
                        saved[better] = value[better]
        with torch.no_grad():
            for value, saved in zip(self.parameters(), kept, strict=True):
                value.copy_(saved)
        return self._loss(testing)

    @torch.no_grad()
    def score(self, exercises: Sequence[Exercise]) -> float:
        """The loss of exercises in nats per step."""
        packed = _packed(exercises)
        return self._loss(replace(packed, features=self._scaled(packed.features)))

    def _right(self, packed: "_Packed") -> Tensor:
        """The mass of each scorer on what is right, (SCORERS, steps), of steps whose features are scaled.

        A batch is the same for all of them, or has one row of steps for each.
        """
        scores = self._scores(packed.features.flatten(-3, -2)).view(SCORERS, *packed.credit.shape[-2:])
        return (scores.masked_fill(~packed.real, -torch.inf).softmax(-1) * packed.credit).sum(-1)

    def _losses(self, packed: "_Packed") -> Tensor:
        return _nats(self._right(packed), packed.weight)

    @torch.no_grad()
    def _loss(self, packed: "_Packed") -> float:
        return _nats(self._right(packed).mean(0), packed.weight).item()


def _nats(right: Tensor, weight: Tensor) -> Tensor:
    """The mean loss of steps that have this mass on what is right."""
    return -(weight * torch.log((1 - _FLOOR) * right + _FLOOR)).sum(-1) / weight.sum(-1)


@dataclass(frozen=True)
class _Packed:
    features: Tensor
    credit: Tensor
    real: Tensor
    weight: Tensor

    def rows(self, batch: Tensor) -> "_Packed":
        return _Packed(self.features[batch], self.credit[batch], self.real[batch], self.weight[batch])


def _packed(exercises: Sequence[Exercise]) -> _Packed:
    widest, size = max(len(one.credit) for one in exercises), exercises[0].features.shape[1]
    features = torch.zeros(len(exercises), widest, size)
    credit, real = torch.zeros(len(exercises), widest), torch.zeros(len(exercises), widest, dtype=torch.bool)
    for at, one in enumerate(exercises):
        n = len(one.credit)
        features[at, :n], credit[at, :n] = torch.from_numpy(one.features), torch.from_numpy(one.credit)
        real[at, :n] = True
    return _Packed(features, credit, real, torch.tensor([one.weight for one in exercises]))
