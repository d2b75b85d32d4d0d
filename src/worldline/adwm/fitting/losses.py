"""The training objective (40) of the world model, term by term (ADWM appendix E.7).

Pure functions of encoded batches. The heads are the published ones: class-balanced, the reward head reads
reward-to-go. `paper` has actions by table and gradients from the diffusion loss into the encoder. The text presets tell
actions apart within the batch, and shape latents by contrast: the next observation among those of the batch.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from worldline.adwm.diffusion import noised
from worldline.adwm.episodes import Encoded
from worldline.adwm.model import WorldModel

WEIGHTS = {"diffusion": 1.0, "inverse": 0.5, "clone": 0.5, "diversity": 0.1, "reward": 1.0, "termination": 0.5}
_DRAWS = 4
"""Noise levels per transition: the score network is small, the encoders are not."""


def losses(model: WorldModel, batch: Encoded, generator: torch.Generator, hide: float = 0.1) -> dict[str, Tensor]:
    """Every term of (40), unweighted. `hide` is the share of actions hidden from the score network."""
    terms = {
        "diffusion": diffusion_loss(model, batch, generator, hide),
        "inverse": naming_loss(model, batch, model.inverse_query(batch.z[:, :-1], batch.z[:, 1:], batch.h[:, :-1])),
        "clone": naming_loss(model, batch, model.clone_query(batch.z[:, :-1], batch.h[:, :-1])),
        "diversity": diversity_loss(batch.z, batch.real),
    }
    return (
        terms
        | ({"contrast": contrast_loss(model, batch)} if model.architecture.text else {})
        | head_losses(model, batch)
    )


def total(terms: dict[str, Tensor]) -> Tensor:
    """The weighted sum."""
    return torch.stack([WEIGHTS.get(name, 1.0) * value for name, value in terms.items()]).sum()


def diffusion_loss(model: WorldModel, batch: Encoded, generator: torch.Generator, hide: float) -> Tensor:
    """(41): eps regression on the next latent given history and action, the action hidden now and then."""
    real = batch.real
    after, h, action = batch.z[:, 1:][real], batch.h[:, :-1][real], batch.action[real]
    after = after.detach() if model.architecture.text else after
    after, h, action = (x.repeat(_DRAWS, 1) for x in (after, h, action))
    return score_loss(model, after, h, action, generator, hide)


def score_loss(
    model: WorldModel, after: Tensor, h: Tensor, action: Tensor, generator: torch.Generator, hide: float = 0.1
) -> Tensor:
    """(41) for transitions: the next latents (N, latent), the histories and the actions before them."""
    device, n = after.device, len(after)
    k = torch.randint(1, len(model.abar), (n,), generator=generator).to(device)
    eps = torch.randn(after.shape, generator=generator).to(device)
    hidden = (torch.rand(n, generator=generator) < hide).to(device)
    action = torch.where(hidden.unsqueeze(-1), model.null_action(n).to(action.dtype), action)
    return F.mse_loss(model.score(noised(after, k, eps, model.abar), k, h, action).float(), eps)


def naming_loss(model: WorldModel, batch: Encoded, query: Tensor) -> Tensor:
    """Cross-entropy of the action taken: over the table, or over the actions in the batch, equal texts being one."""
    real = batch.real
    if not model.architecture.text:
        in_table = batch.rows[real] < len(model.actions)
        return (
            F.cross_entropy(query[real][in_table].float(), batch.rows[real][in_table])
            if in_table.any()
            else query.sum() * 0
        )
    return _matched(query[real], batch.action[real], batch.same[real])


def contrast_loss(model: WorldModel, batch: Encoded) -> Tensor:
    """Which of the batch's next observations followed, equal texts being one: latents must tell answers apart."""
    real = batch.real
    expected = model.expectation(batch.h[:, :-1][real], batch.action[real])
    return _matched(expected, batch.z[:, 1:][real], batch.same_after[real])


def _matched(queries: Tensor, keys: Tensor, same: Tensor) -> Tensor:
    """Cross-entropy of the right key for each query; keys with the same number are one."""
    logits = (queries @ keys.T).float() / keys.shape[-1] ** 0.5
    match = same.unsqueeze(0) == same.unsqueeze(1)
    right = logits.masked_fill(~match, float("-inf"))
    return torch.mean(logits.logsumexp(-1) - right.logsumexp(-1))


def diversity_loss(z: Tensor, real: Tensor) -> Tensor:
    """(42): squared positive cosine between the mean latents of different trajectories."""
    there = torch.cat([real[:, :1], real], 1).unsqueeze(-1)
    mean = (z * there).sum(1) / there.sum(1)
    unit = F.normalize(mean, dim=-1)
    cosine = (unit @ unit.T).clamp(min=0) ** 2
    n = len(unit)
    return (cosine.sum() - cosine.diagonal().sum()) / max(1, n * (n - 1))


def head_losses(model: WorldModel, batch: Encoded) -> dict[str, Tensor]:
    """The published heads: reward-to-go by MSE, or success at the end by balanced BCE; balanced hazard."""
    real, ended = batch.real, batch.ended[batch.real]
    out = model.heads(batch.z[:, 1:][real], batch.h[:, 1:][real])
    last = batch.real & ~F.pad(batch.real[:, 1:], (0, 1))
    sparse = bool(
        (batch.rewards[batch.real & ~last] == 0).all() and ((batch.rewards == 0) | (batch.rewards == 1)).all()
    )
    if sparse:
        logits, won = out.reward[last[real]].float(), batch.rewards[last]
        reward = F.binary_cross_entropy_with_logits(logits, won, pos_weight=balance(won))
    else:
        to_go = batch.rewards.flip(1).cumsum(1).flip(1).clamp(0, 1)[real]
        reward = F.mse_loss(out.reward.float().sigmoid(), to_go)
    hazard = F.binary_cross_entropy_with_logits(out.hazard.float(), ended, pos_weight=balance(ended))
    return {"reward": reward, "termination": hazard}


def balance(labels: Tensor) -> Tensor:
    """Negatives per positive in the batch, 1 where a class is missing."""
    positive = labels.sum()
    missing = (positive == 0) | (positive == labels.numel())
    return torch.where(missing, torch.ones_like(positive), (labels.numel() - positive) / positive.clamp(min=1))
