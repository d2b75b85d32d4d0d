"""The policy adapter (ADWM equation 43, appendix E.9): a latent as a few soft tokens of the evaluated language model.

One small network for each member of an ensemble and each family of language models (those that share an embedding
table); world model and language model stay as they are. Trained on the log's own (latent, observation text) pairs so
that the mean of the soft tokens tells observations apart (symmetric InfoNCE) and lies where the mean of the text's
token embeddings lies (MSE, both standardised). `distillation` trains the same network for what it is used for instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn
from torch.nn import functional as F

from worldline.adwm.ensemble import Member
from worldline.adwm.networks import mlp
from worldline.policies.language_model.encoding import Tokenizer
from worldline.types import InputError, derive_seed

_LONGEST = 512
"""Tokens of an observation that count for its mean embedding."""
_LEAST = 2
_TEMPERATURE, _RATE = 0.07, 1e-3
"""The paper's. Its weight of the squared error is lost: here it is that of the contrast."""
_HELD_OUT = 0.1
"""Share of the distinct texts kept aside to measure retrieval on. Ours."""


class AdapterConfig(BaseModel):
    """Size and training of an adapter. The defaults are the paper's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hidden: int = 512
    batch: int = 8
    epochs: int = 20


class Adapter(nn.Module):
    """G_psi: a latent (N, d) to soft tokens (N, Ks, width), in units of the embedding table's own spread."""

    middle: Tensor
    spread: Tensor

    def __init__(self, latent: int, width: int, tokens: int = 8, hidden: int = 512) -> None:
        super().__init__()
        self.width, self.tokens = width, tokens
        self.net = mlp(latent, hidden, hidden, tokens * width, activation=nn.GELU)
        self.register_buffer("middle", torch.zeros(width))
        self.register_buffer("spread", torch.ones(width))

    def forward(self, z: Tensor) -> Tensor:
        soft: Tensor = self.middle + self.spread * self.net(z).unflatten(-1, (self.tokens, self.width))
        return soft

    def summary(self, z: Tensor) -> Tensor:
        """The standardised mean of the soft tokens, (N, width): what equation (43) compares."""
        out: Tensor = self.net(z).unflatten(-1, (self.tokens, self.width)).mean(-2)
        return out


def info_nce(left: Tensor, right: Tensor, temperature: float) -> Tensor:
    """Symmetric InfoNCE over cosines: row i of each side belongs to row i of the other and to no other."""
    logits = F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T / temperature
    own = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


def retrieval(left: Tensor, right: Tensor) -> float:
    """Share of rows whose nearest row on the other side, by cosine, is their own."""
    nearest = (F.normalize(left, dim=-1) @ F.normalize(right, dim=-1).T).argmax(-1)
    return float((nearest == torch.arange(len(nearest), device=nearest.device)).float().mean())


@dataclass(frozen=True)
class FittedAdapter:
    """An adapter, and how often held-out soft tokens find their own text: among all, and among as many as a batch."""

    adapter: Adapter
    figures: dict[str, float]


def mean_embeddings(texts: Sequence[str], tokenizer: Tokenizer, table: Tensor) -> Tensor:
    """The mean of each text's token embeddings, (N, width)."""
    rows = tokenizer([text.strip() for text in texts], add_special_tokens=False, return_attention_mask=False)
    ids = [row[:_LONGEST] for row in rows["input_ids"]]
    flat = torch.tensor([token for row in ids for token in row], dtype=torch.long, device=table.device)
    starts = torch.tensor(np.cumsum([0, *(len(row) for row in ids[:-1])]), device=table.device)
    return F.embedding_bag(flat, table.detach().float(), starts, mode="mean")


def fit_adapter(
    member: Member,
    answers: Sequence[str],
    tokenizer: Tokenizer,
    table: Tensor,
    config: AdapterConfig,
    *,
    seed: int = 0,
) -> FittedAdapter:
    """Equation (43) on the latents of all logged `answers`; `table` (V, width) is the language model's embedding.

    An epoch shows every distinct text once, with the latent of one of its occurrences: a text is never its own
    negative.
    """
    places: dict[str, list[int]] = {}  # of each distinct text
    for at, text in enumerate(answers):
        places.setdefault(text, []).append(at)
    distinct = list(places)
    rng = np.random.default_rng(derive_seed(seed, "adapter"))
    held_out, taught = _split(len(distinct), rng)
    device = table.device
    latents, target = member.decoder.latents.to(device), mean_embeddings(distinct, tokenizer, table)
    torch.manual_seed(derive_seed(seed, "adapter weights"))
    adapter = Adapter(latents.shape[-1], table.shape[-1], hidden=config.hidden).to(device)
    adapter.middle.copy_(target[taught].mean(0))
    adapter.spread.copy_(target[taught].std(0).clamp(min=1e-6))
    target = (target - adapter.middle) / adapter.spread
    optimizer = torch.optim.Adam(adapter.parameters(), lr=_RATE)

    def occurrence(text: int) -> int:
        occurrences = places[distinct[text]]
        return occurrences[int(rng.integers(len(occurrences)))]

    for _ in range(config.epochs):
        shown = rng.permutation(taught)
        rows = torch.tensor([occurrence(text) for text in shown], device=device)
        wanted = torch.from_numpy(shown).to(device)
        for start in range(0, len(shown) - 1, config.batch):
            summaries = adapter.summary(latents[rows[start:][: config.batch]])
            embeddings = target[wanted[start:][: config.batch]]
            loss = info_nce(summaries, embeddings, _TEMPERATURE) + F.mse_loss(summaries, embeddings)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimizer.step()
    rows = torch.tensor([occurrence(text) for text in held_out], device=device)
    adapter.eval().requires_grad_(False)
    return FittedAdapter(adapter, _measured(adapter, latents[rows], target[held_out], config))


def _split(texts: int, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """The numbers of the texts that are held out, a random share of them, and of those that teach the adapter."""
    order = [int(at) for at in rng.permutation(texts)]
    held_out = order[: max(_LEAST, round(_HELD_OUT * texts))]
    taught = order[len(held_out) :]
    if len(taught) < _LEAST:
        raise InputError(f"the log has {texts} different observations: too few for an adapter; --interface text")
    return held_out, taught


@torch.no_grad()
def _measured(adapter: Adapter, latents: Tensor, target: Tensor, config: AdapterConfig) -> dict[str, float]:
    summaries = adapter.summary(latents)
    batches = [
        retrieval(summaries[start:][: config.batch], target[start:][: config.batch])
        for start in range(0, len(summaries) - config.batch + 1, config.batch)
    ]
    return {
        "texts": float(len(summaries)),
        "top1": retrieval(summaries, target),
        "top1_chance": 1 / len(summaries),
        "top1_in_batch": float(np.mean(batches)) if batches else retrieval(summaries, target),
        "mse": float(F.mse_loss(summaries, target)),
    }
