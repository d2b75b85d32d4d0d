"""Where the next latent of an imagined step comes from: the diffusion model, a rival of it, or nothing but noise."""

import torch
from torch import Tensor

from worldline.adwm.diffusion import LogPolicy, annealed, guided, sample
from worldline.adwm.imagination import ImaginationConfig
from worldline.adwm.model import WorldModel
from worldline.adwm.rivals.latent import Rivals
from worldline.types import WorldlineError

BOUND = 3.0
"""Latents have unit mean square: nothing real is beyond this in any dimension."""


def noise_draws(config: ImaginationConfig) -> int:
    """Noise vectors that one step takes: DDIM draws its start alone."""
    return 1 if config.dynamics in ("diffusion", "noise") and not config.eta else 1 + config.steps


def next_latents(
    model: WorldModel,
    rivals: Rivals | None,
    config: ImaginationConfig,
    h: Tensor,
    action: Tensor,
    noise: Tensor,
    own: Tensor | None = None,
    log_policy: LogPolicy | None = None,
) -> Tensor:
    """z_{t+1} (B, latent) of every row, given `noise` (draws, B, latent).

    `own` (B, steps) marks the logged steps that a replayed episode must not be answered by; `log_policy` guides.
    """
    if config.dynamics == "noise":
        return noise[0]
    if config.dynamics != "diffusion":
        if rivals is None:
            raise WorldlineError(f"{config.dynamics} was not fitted with this world model: fit it with --rivals")
        if config.dynamics == "wm-knn":
            return rivals.knn.answers[rivals.knn.nearest(h, action, own)]
        return rivals.drawn()[config.dynamics].next(h, action, noise)
    predict = guided(
        model.conditional(h, action),
        model.conditional(h, model.null_action(len(h))),
        model.abar,
        w=config.w,
        alpha=annealed(config.alpha, model.abar) if log_policy is not None else None,
        log_policy=log_policy,
        clip=config.clip,
    )
    injected = noise[1:] if config.eta > 0 else None
    return sample(predict, noise[0], model.abar, steps=config.steps, eta=config.eta, noise=injected, bound=BOUND)


def seeded_noise(config: ImaginationConfig, rows: int, latent: int, seed: int) -> Tensor:
    """(draws, rows, latent) standard normal."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(noise_draws(config), rows, latent, generator=generator)
