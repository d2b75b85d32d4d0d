"""The learned weight of each candidate: a small scorer over features, fitted by the likelihood of what was answered.

p(candidate) is proportional to exp(linear + tanh layer). The loss of a step is minus the log of the mass on candidates
with the right text, weighed by how well their source's end and reward agree with what happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

Array = npt.NDArray[np.float32]
HIDDEN = 16
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
    """Scores of candidates."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int, likelihoods: slice = slice(0)) -> None:
        """`likelihoods` are features that are log-likelihoods: the fit begins with half of what they say."""
        super().__init__()
        self._likelihoods = likelihoods
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))
        self.linear = nn.Linear(size, 1, bias=False)
        self.hidden = nn.Linear(size, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1, bias=False)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.out.weight)

    def forward(self, features: Tensor) -> Tensor:
        """(..., F) -> (...)."""
        return self._scores(self._scaled(features))

    def _learn_scale(self, features: Tensor) -> None:
        self.mean.copy_(features.mean(0))
        self.scale.copy_(features.std(0) + 0.05)

    def _scaled(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale

    def _scores(self, scaled: Tensor) -> Tensor:
        scores: Tensor = self.linear(scaled) + self.out(torch.tanh(self.hidden(scaled)))
        return scores.squeeze(-1)

    @torch.no_grad()
    def chances(self, features: Array, sizes: Sequence[int]) -> list[npt.NDArray[np.float64]]:
        """Probabilities of the candidates of several steps, one below the other; `sizes` of them for each step."""
        scores = self(torch.from_numpy(features)).double()
        return [part.softmax(0).numpy() for part in torch.split(scores, list(sizes))]

    def fit(
        self, exercises: Sequence[Exercise], held_out: frozenset[int], seed: int, steps: int | None = None
    ) -> float:
        """Fit on all episodes but those held out, where it is stopped; the held-out loss in nats per step."""
        steps = _STEPS if steps is None else steps
        training = _packed([one for one in exercises if one.episode not in held_out])
        testing = _packed([one for one in exercises if one.episode in held_out])
        self._learn_scale(training.features[training.real])
        with torch.no_grad():
            self.linear.weight[0, self._likelihoods] = 0.5 * self.scale[self._likelihoods]
        for one in (training, testing):  # in place: they are large
            one.features.sub_(self.mean).div_(self.scale)
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(self.hidden.weight, std=len(self.mean) ** -0.5, generator=generator)
        nn.init.uniform_(self.hidden.bias, -(len(self.mean) ** -0.5), len(self.mean) ** -0.5, generator=generator)
        optimizer = torch.optim.AdamW(self.parameters(), lr=_RATE, weight_decay=_DECAY, foreach=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
        best, kept = float("inf"), {name: value.clone() for name, value in self.state_dict().items()}
        for step in range(steps):
            batch = torch.randint(len(training.weight), (min(_BATCH, len(training.weight)),), generator=generator)
            optimizer.zero_grad()
            self._loss(training.rows(batch)).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimizer.step()
            schedule.step()
            if (step + 1) % _EVERY == 0:
                with torch.no_grad():
                    score = self._loss(testing).item()
                if score < best:
                    best, kept = score, {name: value.clone() for name, value in self.state_dict().items()}
        self.load_state_dict(kept)
        return best

    @torch.no_grad()
    def score(self, exercises: Sequence[Exercise]) -> float:
        """The loss of exercises in nats per step."""
        packed = _packed(exercises)
        return self._loss(replace(packed, features=self._scaled(packed.features))).item()

    def _loss(self, packed: "_Packed") -> Tensor:
        """Of steps whose features are scaled."""
        chances = self._scores(packed.features).masked_fill(~packed.real, -torch.inf).softmax(1)
        right = (chances * packed.credit).sum(1)
        return -(packed.weight * torch.log((1 - _FLOOR) * right + _FLOOR)).sum() / packed.weight.sum()


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
