"""Fitting the wide part of the heads: four linear models over the features of `evidence`, before the networks learn.

The heads are separate problems, so each keeps its own best epoch on held-out tasks. Precedents are few and say most;
the many features of words would otherwise have explained their part away by the time they are learned.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from worldline.adwm.episodes import EpisodeData
from worldline.adwm.model import Outcome, WorldModel, wide_logits
from worldline.adwm.tokenizer import padded
from worldline.types import derive_seed

_RATE, _DECAY, _BATCH, _EPOCHS = 0.02, 0.01, 128, 32
_PRECEDENTS_RATE = 5 * _RATE


def fit_wide(
    model: WorldModel,
    training: Sequence[EpisodeData],
    held_out: Sequence[EpisodeData],
    chances: npt.NDArray[np.float64],
    seed: int,
) -> None:
    """Fit the wide part of the heads alone, each to its best epoch on held-out tasks."""
    x, y, w = _evidence(training, torch.from_numpy(chances * len(training)).float())
    xt, yt, wt = _evidence(held_out, torch.ones(len(held_out)))
    # Few of the buckets are ever used: those alone are trained, and then put where they belong.
    used = torch.unique(torch.cat([torch.zeros(1, dtype=torch.long), x.flatten(), xt.flatten()]))
    x, xt = torch.searchsorted(used, x), torch.searchsorted(used, xt)
    wide, precedent = (
        torch.nn.Parameter(table.detach().cpu()[used]) for table in (model.wide.weight, model.precedent.weight)
    )
    bias = torch.nn.Parameter(torch.zeros(len(Outcome._fields)))
    groups = [{"params": [wide, bias], "lr": _RATE}, {"params": [precedent], "lr": _PRECEDENTS_RATE}]
    optimizer = torch.optim.AdamW(groups, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 - epoch / _EPOCHS)
    best, kept = torch.full_like(bias, torch.inf), [p.detach().clone() for p in (wide, precedent, bias)]
    for epoch in range(_EPOCHS):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(derive_seed(seed, epoch, "wide")))
        for rows in torch.split(order, _BATCH):
            optimizer.zero_grad()
            terms = outcome_terms(wide_logits(x[rows], wide, precedent) + bias, y[rows])
            (w[rows, None] * terms).sum(-1).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        schedule.step()
        with torch.no_grad():
            scores = (wt[:, None] * outcome_terms(wide_logits(xt, wide, precedent) + bias, yt)).mean(0)
            better = scores < best
            best = torch.where(better, scores, best)
            # precedents are silent on the first head
            for at, (now, heads) in enumerate(((wide, better), (precedent, better[1:]), (bias, better))):
                kept[at] = torch.where(heads, now, kept[at])
    _put(model, used, *kept)


@torch.no_grad()
def _put(model: WorldModel, used: Tensor, wide: Tensor, precedent: Tensor, bias: Tensor) -> None:
    for table, weight in ((model.wide.weight, wide), (model.precedent.weight, precedent)):
        table[used.to(model.device)] = weight.to(model.device)
    for head, part in ((model.termination_head, bias[:1]), (model.reward_head, bias[1:])):
        list(head.parameters())[-1].copy_(part)


def _evidence(data: Sequence[EpisodeData], weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Every step's features (n, F), targets (n, 3: end, reward, success) and weight (n,)."""
    x = torch.from_numpy(padded([ids for one in data for ids in one.evidence]))
    rows = [(end, reward, one.success) for one in data for end, reward in zip(one.ended, one.rewards, strict=True)]
    w = torch.repeat_interleave(weights, torch.tensor([len(one) for one in data]))
    return x, torch.tensor(rows, dtype=torch.float32), w


def outcome_terms(logits: Tensor, y: Tensor) -> Tensor:
    """(n, 4): the logarithmic score of each head at each step, 0 where it is not asked.

    Hazard is asked at every step, reward at the end or on the way, success at the end, where it is known.
    """
    ended, reward, success = y.unbind(-1)
    told = torch.stack([ended, reward, reward, success.nan_to_num(0.0)], -1)
    asked = torch.stack([torch.ones_like(ended), ended, 1 - ended, ended * ~success.isnan()], -1)
    return asked * F.binary_cross_entropy_with_logits(logits, told, reduction="none")
