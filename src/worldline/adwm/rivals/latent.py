"""World models that are not ours, on the same latents and the same log: what the diffusion model has to beat.

`wm-ar` regresses the next latent (a Gaussian, sampled), `wm-joint` denoises the next few latents and actions together
and keeps the first, `wm-knn` repeats what followed the most similar logged history and action. All three are
driven by the same rollout engine and decoded like ours: same candidates, same reading back, same outcomes.
The fourth rival, `wm-text`, is a language model (`rivals.language_model`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from worldline.adwm.diffusion import cosine_schedule, noised, sample
from worldline.adwm.episodes import EpisodeData, encode, windows
from worldline.adwm.imagination import DynamicsName
from worldline.adwm.model import WorldModel
from worldline.adwm.networks import ScoreNet, mlp
from worldline.types import derive_seed

_EPOCHS, _BATCH, _RATE = 12, 256, 1e-3
RIVALS: tuple[DynamicsName, ...] = ("wm-ar", "wm-joint", "wm-knn")
SPAN = 4
"""Steps that `wm-joint` denoises together."""


class Dynamics(Protocol):
    """A transition model: the next latent (B, latent) from history, action and noise (1 + steps, B, latent)."""

    def next(self, h: Tensor, action: Tensor, noise: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Pairs:
    """Every logged step, encoded once: h (N, width), action (N, -), the next latent, and the steps that follow it."""

    h: Tensor
    action: Tensor
    after: Tensor
    ahead: Tensor
    """(N, SPAN * (latent + action)): the next latents and the actions between them, repeated at the end."""


@torch.no_grad()
def pairs(model: WorldModel, data: Sequence[EpisodeData], size: int = 32) -> Pairs:
    model.eval()
    rows: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
    pieces = windows(data, model)
    for start in range(0, len(pieces), size):
        out = encode(model, pieces[start : start + size])
        for row in range(len(out.z)):
            steps = int(out.real[row].sum())
            z, action = out.z[row, 1 : steps + 1], out.action[row, :steps]
            turns = torch.arange(steps, device=z.device).unsqueeze(1) + torch.arange(SPAN, device=z.device)
            turns = turns.clamp(max=steps - 1)
            then = action[(turns + 1).clamp(max=steps - 1)]
            rows.append((out.h[row, :steps], action, z, torch.cat([z[turns], then], -1).flatten(1)))
    return Pairs(*(torch.cat(parts) for parts in zip(*rows, strict=True)))


class Regressor(nn.Module):
    """`wm-ar`: a Gaussian around an MLP's guess."""

    def __init__(self, history: int, action: int, latent: int, width: int) -> None:
        super().__init__()
        self.net = mlp(history + action, width, width, 2 * latent)

    def forward(self, h: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation."""
        mean, spread = self.net(torch.cat([h, action], -1)).chunk(2, -1)
        return mean, spread.clamp(-5, 1)

    def next(self, h: Tensor, action: Tensor, noise: Tensor) -> Tensor:
        mean, spread = self(h, action)
        out: Tensor = mean + spread.exp() * noise[0]
        return out

    def loss(self, batch: Pairs, generator: torch.Generator) -> Tensor:
        mean, spread = self(batch.h, batch.action)
        return torch.mean(0.5 * ((batch.after - mean) / spread.exp()) ** 2 + spread)


class JointDenoiser(nn.Module):
    """`wm-joint`: diffusion over the next `SPAN` latents and actions at once, given history and the action taken."""

    abar: Tensor

    def __init__(self, history: int, action: int, latent: int, width: int, steps: int) -> None:
        super().__init__()
        self.latent, self.size = latent, SPAN * (latent + action)
        self.score = ScoreNet(self.size, history, action, width)
        self.register_buffer("abar", cosine_schedule(steps).float(), persistent=False)

    def next(self, h: Tensor, action: Tensor, noise: Tensor) -> Tensor:
        # one long noise vector from the short ones that all models share
        start = noise.transpose(0, 1).reshape(len(h), -1)
        start = start.repeat(1, -(-self.size // start.shape[1]))[:, : self.size]
        return sample(self.score.given(h, action), start, self.abar, steps=10, bound=4.0)[:, : self.latent]

    def loss(self, batch: Pairs, generator: torch.Generator) -> Tensor:
        device = batch.h.device
        k = torch.randint(1, len(self.abar), (len(batch.h),), generator=generator).to(device)
        eps = torch.randn(batch.ahead.shape, generator=generator).to(device)
        return F.mse_loss(self.score(noised(batch.ahead, k, eps, self.abar), k, batch.h, batch.action), eps)


class Neighbours(nn.Module):
    """`wm-knn`: what followed the most similar logged history and action."""

    keys: Tensor
    answers: Tensor

    def __init__(self, steps: int, width: int, latent: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(steps, width))
        self.register_buffer("answers", torch.zeros(steps, latent))

    def nearest(self, h: Tensor, action: Tensor, own: Tensor | None = None) -> Tensor:
        """The number of the most similar logged step, for each row, but for those that `own` (B, steps) marks."""
        apart = torch.cdist(_key(h, action), self.keys)
        return (apart if own is None else apart.masked_fill(own, torch.inf)).argmin(-1)

    def memorise(self, every: Pairs) -> None:
        self.keys.copy_(_key(every.h, every.action))
        self.answers.copy_(every.after)


def _key(h: Tensor, action: Tensor) -> Tensor:
    """History and action on the same footing."""
    return torch.cat([F.normalize(h, dim=-1), F.normalize(action, dim=-1)], -1)


class Rivals(nn.Module):
    """All three, fitted on one member's latents."""

    def __init__(self, model: WorldModel, steps: int) -> None:
        super().__init__()
        size = model.architecture
        self.ar = Regressor(size.width, size.action, size.latent, size.score_width)
        self.joint = JointDenoiser(size.width, size.action, size.latent, size.score_width, size.diffusion_steps)
        self.knn = Neighbours(steps, size.width + size.action, size.latent)

    def drawn(self) -> dict[str, Dynamics]:
        """Those that draw the next latent; the neighbours look it up."""
        return {"wm-ar": self.ar, "wm-joint": self.joint}

    def fit(
        self, training: Pairs, every: Pairs, seed: int, watch: Callable[[int, int], None] = lambda done, of: None
    ) -> None:
        """`training` leaves the held-out tasks out; the neighbours hold the whole log, as our own decoder does.

        `watch` hears of every epoch.
        """
        for place, name in enumerate(("ar", "joint")):
            rival = getattr(self, name)
            optimizer = torch.optim.AdamW(rival.parameters(), lr=_RATE)
            generator = torch.Generator().manual_seed(derive_seed(seed, name))
            for epoch in range(_EPOCHS):
                watch(place * _EPOCHS + epoch, 2 * _EPOCHS)
                for rows in torch.split(torch.randperm(len(training.h), generator=generator), _BATCH):
                    rows = rows.to(training.h.device)
                    batch = Pairs(training.h[rows], training.action[rows], training.after[rows], training.ahead[rows])
                    optimizer.zero_grad()
                    rival.loss(batch, generator).backward()
                    optimizer.step()
        self.knn.memorise(every)
        self.eval()
