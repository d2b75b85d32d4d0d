"""Diffusion over latent vectors: schedule, noising, reverse steps, guidance (ADWM sections 3.3 and 4.2, appendix D).

Pure functions of tensors: `abar` is the table abar_0 .. abar_K with abar_0 = 1, `z` of shape (B, d), `k` an integer
step per row (B,), or one for all of them (1,). Nothing here knows about text, policies or training. Left out: learned
variances and other schedules.
"""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

Noise = Callable[[Tensor, Tensor], Tensor]
"""eps_theta(z^k (B, d), k (B,) or (1,)) -> (B, d): what a score network is to this module."""
LogPolicy = Callable[[Tensor], Tensor]
"""log pi_e of the continuation from a clean latent: (B, d) -> (B,), differentiable."""
_OFFSET = 0.008


def cosine_schedule(K: int) -> Tensor:
    """abar_0 .. abar_K of the cosine schedule (Nichol and Dhariwal 2021), with no step's beta above 0.999."""
    grid = torch.linspace(0, 1, K + 1, dtype=torch.float64)
    curve = torch.cos((grid + _OFFSET) / (1 + _OFFSET) * math.pi / 2) ** 2
    kept = (curve[1:] / curve[:-1]).clamp(min=0.001)
    return torch.cat([torch.ones(1, dtype=torch.float64), kept.cumprod(0)])


def noised(z: Tensor, k: Tensor, eps: Tensor, abar: Tensor) -> Tensor:
    """z^k = sqrt(abar_k) z + sqrt(1 - abar_k) eps."""
    level = abar[k].unsqueeze(-1).to(z.dtype)
    return level.sqrt() * z + (1 - level).sqrt() * eps


def denoised(zk: Tensor, eps: Tensor, level: Tensor) -> Tensor:
    """The clean latent that `eps` implies at abar = `level`, (B, 1) or one for all, equation (35)."""
    return (zk - (1 - level).sqrt() * eps) / level.sqrt()


def classifier_free(eps_conditional: Tensor, eps_unconditional: Tensor, w: float) -> Tensor:
    """The first two terms of equation (9): lam = 1 + w weighs the action's posterior."""
    return (1 + w) * eps_conditional - w * eps_unconditional


def annealed(alpha: float, abar: Tensor) -> Tensor:
    """alpha_k = alpha abar_k: the policy speaks louder as the denoised estimate becomes trustworthy."""
    return alpha * abar


def continuation_gradient(zk: Tensor, k: Tensor, predict: Noise, log_policy: LogPolicy, abar: Tensor) -> Tensor:
    """g of equation (9): the gradient of log pi_e(continuation) in z^k, through the denoised estimate (37)."""
    level = abar[k].unsqueeze(-1).to(zk.dtype)
    with torch.enable_grad():
        leaf = zk.detach().requires_grad_()
        total = log_policy(denoised(leaf, predict(leaf, k), level)).sum()
        gradient: Tensor = torch.autograd.grad(total, leaf)[0]
    return gradient


def clipped(gradient: Tensor, norm: float) -> Tensor:
    """Each row scaled down to length `norm` where it is longer."""
    length = gradient.norm(dim=-1, keepdim=True)
    scale: Tensor = norm / length.clamp(min=norm)
    return gradient * scale


def guided(
    conditional: Noise,
    unconditional: Noise,
    abar: Tensor,
    *,
    w: float = 0.0,
    alpha: Tensor | None = None,
    log_policy: LogPolicy | None = None,
    clip: float | None = None,
) -> Noise:
    """Equation (9): eps_hat = (1+w) eps_c - w eps_u - sqrt(1 - abar_k) alpha_k g.

    `alpha` is the table alpha_0 .. alpha_K. With w = 0 and no alpha this is `conditional` itself, to the bit.
    """
    if w == 0 and (alpha is None or log_policy is None):
        return conditional

    def predict(zk: Tensor, k: Tensor) -> Tensor:
        eps = conditional(zk, k)
        if w != 0:
            eps = classifier_free(eps, unconditional(zk, k), w)
        if alpha is not None and log_policy is not None:
            g = continuation_gradient(zk, k, conditional, log_policy, abar)
            g = g if clip is None else clipped(g, clip)
            weight = (1 - abar[k]).sqrt() * alpha[k]
            eps = eps - weight.unsqueeze(-1).to(zk.dtype) * g
        return eps

    return predict


def reverse_step(
    zk: Tensor, eps: Tensor, level: Tensor, target: Tensor, eta: float = 0.0, noise: Tensor | None = None
) -> Tensor:
    """From abar = `level` down to abar = `target`: DDIM (Song et al. 2021) at eta = 0, DDPM's posterior at eta = 1."""
    clean = denoised(zk, eps, level)
    if noise is None:
        return target.sqrt() * clean + (1 - target).sqrt() * eps
    spread = eta * ((1 - target) / (1 - level) * (1 - level / target)).clamp(min=0).sqrt()
    return target.sqrt() * clean + (1 - target - spread**2).clamp(min=0).sqrt() * eps + spread * noise


def sample(
    predict: Noise,
    start: Tensor,
    abar: Tensor,
    *,
    steps: int,
    eta: float = 0.0,
    noise: Tensor | None = None,
    bound: float | None = None,
) -> Tensor:
    """Latents from pure noise `start` = z^K by `steps` reverse steps; `steps` = K and eta = 1 is DDPM.

    `noise` (steps, B, d) is what eta > 0 injects: it is an argument, so that policies can share it. `bound` keeps
    the denoised estimate of an imperfect network inside a box: near k = K its error is multiplied by 1/sqrt(abar_K).
    """
    if eta > 0 and noise is None:
        raise ValueError("eta > 0 needs the noise it injects")
    zk = start
    ks = torch.linspace(len(abar) - 1, 0, steps + 1).round().long().tolist()
    for index, (k, lower) in enumerate(itertools.pairwise(ks)):
        level, target = abar[k].to(zk.dtype), abar[lower].to(zk.dtype)
        eps = predict(zk, torch.full((1,), k, device=zk.device))
        if bound is not None:
            clean = denoised(zk, eps, level).clamp(-bound, bound)
            eps = (zk - level.sqrt() * clean) / (1 - level).sqrt()
        zk = reverse_step(zk, eps, level, target, eta, None if noise is None else noise[index])
    return zk
