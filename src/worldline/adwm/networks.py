"""The networks of the world model: encoders of text and history, the score network, the heads (ADWM appendix E.6).

Sizes are arguments; `model.py` holds the presets. Transformer layers are PyTorch's TransformerEncoderLayer to the
parameter (post-norm, SiLU), written out so that the history encoder can keep keys and values between steps.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from worldline.adwm.tokenizer import PAD

_SCORE_LAYERS, _TIME = 3, 64
"""Layers of the score network, and the width of a noise level there (the paper's)."""


def mlp(*sizes: int, activation: type[nn.Module] = nn.SiLU) -> nn.Sequential:
    """Linear layers with `activation` between them."""
    layers: list[nn.Module] = []
    for index, (into, out) in enumerate(itertools.pairwise(sizes)):
        layers += [activation()] if index else []
        layers.append(nn.Linear(into, out))
    return nn.Sequential(*layers)


def attended(query: Tensor, keys_values: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """What queries (B, T, width) find in keys and values (2, B, P, width), by heads."""
    size = heads, query.shape[-1] // heads
    query, key, value = (part.reshape(*part.shape[:2], *size) for part in (query, *keys_values))
    if query.shape[1] > 1:
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask).transpose(1, 2).flatten(2)
    # one query, as in every step of a rollout: plain products cost less than the call made for many
    match = (query * key).sum(-1) / math.sqrt(key.shape[-1])
    if mask is not None:
        match = match.masked_fill(~mask.reshape(-1, key.shape[1], 1), -math.inf)
    seen: Tensor = (match.softmax(1).unsqueeze(-1) * value).sum(1, keepdim=True)
    return seen.flatten(2)


class Block(nn.Module):
    """One transformer layer."""

    def __init__(self, width: int, heads: int, ff: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attend = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.widen = nn.Linear(width, ff)
        self.narrow = nn.Linear(ff, width)
        self.norm_attention = nn.LayerNorm(width)
        self.norm_feedforward = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """x (B, T, width); `mask` is True where a query may look; `past` (2, B, P, width) holds earlier steps."""
        query, key, value = self.attend(x).chunk(3, -1)
        keys_values = torch.stack([key, value])
        keys_values = keys_values if past is None else torch.cat([past, keys_values], 2)
        x = self.norm_attention(x + self.dropout(self.join(attended(query, keys_values, mask, self.heads))))
        x = self.norm_feedforward(x + self.dropout(self.narrow(self.dropout(F.silu(self.widen(x))))))
        return x, keys_values


class TextEncoder(nn.Module):
    """Tokens, with marks that say which other texts they occur in, to one vector (mean over the tokens)."""

    def __init__(
        self,
        words: nn.Embedding,
        length: int,
        layers: int,
        heads: int,
        ff: int,
        out: nn.Module,
        marks: int,
        dropout: float,
    ) -> None:
        super().__init__()
        width = words.embedding_dim
        self.words = words
        self.positions = nn.Embedding(length, width)
        self.marks = nn.Embedding(1 << marks, width) if marks else None
        self.blocks = nn.ModuleList(Block(width, heads, ff, dropout) for _ in range(layers))
        self.out = out
        for table in (self.positions, self.marks):
            if table is not None:
                nn.init.normal_(table.weight, std=0.1)

    def forward(self, ids: Tensor, marks: Tensor | None = None) -> Tensor:
        """ids, marks (N, L) -> (N, out)."""
        real = ids != PAD
        x = self.words(ids) + self.positions.weight[: ids.shape[1]]
        if self.marks is not None and marks is not None:
            x = x + self.marks(marks)
        looked_at = real.clone()
        looked_at[:, 0] = True  # an empty text still needs one key
        for block in self.blocks:
            x, _ = block(x, looked_at[:, None, None, :])
        pooled = (x * looked_at.unsqueeze(-1)).sum(1) / looked_at.sum(1, keepdim=True)
        out: Tensor = self.out(pooled)
        return out


@dataclass(frozen=True)
class Cache:
    """B histories: keys and values of their steps, one (2, B, P, width) per layer, and which are real (B, P).

    Histories of different length share a batch: the order of keys does not matter, because positions were added
    before the layers, so gaps are only marked.
    """

    layers: tuple[Tensor, ...]
    real: Tensor
    tokens: Tensor
    """What was read at each step (B, P, inputs)."""
    h: Tensor
    """Where each history stands (B, width)."""

    @functools.cached_property
    def lengths(self) -> list[int]:
        counts: list[int] = self.real.sum(1).tolist()
        return counts

    @staticmethod
    def stack(rows: Sequence["Row"]) -> "Cache":
        """Rows as one batch. Those that were one before cost next to nothing."""
        places: dict[int, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(id(row.cache), []).append(place)
        parts = [rows[same[0]].cache.rows([rows[place].at for place in same]) for same in places.values()]
        if len(parts) == 1:
            return parts[0]
        room = [max(part.real.shape[1] for part in parts) - part.real.shape[1] for part in parts]
        order = torch.tensor([place for same in places.values() for place in same]).argsort().to(parts[0].real.device)
        layers = tuple(
            torch.cat([F.pad(layer, (0, 0, 0, more)) for layer, more in zip(same, room, strict=True)], 1)[:, order]
            for same in zip(*(part.layers for part in parts), strict=True)
        )
        real = torch.cat([F.pad(part.real, (0, more)) for part, more in zip(parts, room, strict=True)])
        tokens = torch.cat([F.pad(part.tokens, (0, 0, 0, more)) for part, more in zip(parts, room, strict=True)])
        return Cache(layers, real[order], tokens[order], torch.cat([part.h for part in parts])[order])

    def rows(self, which: Sequence[int]) -> "Cache":
        """Some rows, without the places that none of them uses."""
        if list(which) == list(range(len(self.real))):
            return self
        rows = torch.tensor(which, device=self.real.device)
        used = self.real[rows].any(0).nonzero().squeeze(-1)
        layers = tuple(layer[:, rows][:, :, used] for layer in self.layers)
        return Cache(layers, self.real[rows][:, used], self.tokens[rows][:, used], self.h[rows])

    def split(self) -> list["Row"]:
        """Each row by itself; the tensors stay together."""
        return [Row(self, at) for at in range(len(self.real))]


class Row(NamedTuple):
    """One history's part of a cache."""

    cache: Cache
    at: int = 0

    @property
    def length(self) -> int:
        return self.cache.lengths[self.at]

    @property
    def tokens(self) -> Tensor:
        """What was read, in order (t, inputs)."""
        return self.cache.tokens[self.at][self.cache.real[self.at]]


def caches(rows: Sequence[Row]) -> list[Cache]:
    """Where the rows are kept, each place once."""
    return list({id(row.cache): row.cache for row in rows}.values())


def current(rows: Sequence[Row]) -> Tensor:
    """Where each history stands (n, width)."""
    held = caches(rows)
    starts = dict(zip(map(id, held), itertools.accumulate((len(cache.h) for cache in held), initial=0), strict=False))
    places = torch.tensor([starts[id(row.cache)] + row.at for row in rows], device=held[0].h.device)
    return torch.cat([cache.h for cache in held])[places]


class HistoryEncoder(nn.Module):
    """Causal transformer over steps; token t holds what was seen at t and what was done just before it."""

    def __init__(
        self, inputs: int, width: int, layers: int, heads: int, ff: int, positions: int, dropout: float
    ) -> None:
        super().__init__()
        self.enter = nn.Linear(inputs, width)
        self.positions = nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(Block(width, heads, ff, dropout) for _ in range(layers))
        nn.init.normal_(self.positions.weight, std=0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, T, inputs) -> h (B, T, width), h_t a function of tokens 1..t. Padding belongs at the end."""
        length = tokens.shape[1]
        x = self.enter(tokens) + self.positions.weight[:length]
        causal = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
        for block in self.blocks:
            x, _ = block(x, causal)
        out: Tensor = x
        return out

    def step(self, token: Tensor, cache: Cache) -> Cache:
        """One more token (B, inputs) for every row; its h is the same as `forward` would give."""
        x = (self.enter(token) + self.positions(cache.real.sum(1))).unsqueeze(1)
        real = F.pad(cache.real, (0, 1), value=True)
        mask, kept = None if real.all() else real[:, None, None, :], []
        for block, past in zip(self.blocks, cache.layers, strict=True):
            x, layer = block(x, mask, past)
            kept.append(layer)
        return Cache(tuple(kept), real, torch.cat([cache.tokens, token.unsqueeze(1)], 1), x.squeeze(1))

    def empty(self) -> Cache:
        """The cache of one history that has not begun."""
        nothing = self.positions.weight.new_zeros(2, 1, 0, self.positions.embedding_dim)
        tokens, h = nothing.new_zeros(1, 0, self.enter.in_features), nothing.new_zeros(1, self.positions.embedding_dim)
        return Cache((nothing,) * len(self.blocks), nothing.new_zeros(1, 0, dtype=torch.bool), tokens, h)


class ScoreNet(nn.Module):
    """eps_theta(z^k, k | h, a): an MLP whose layers are scaled and shifted by the condition (FiLM); starts at zero."""

    def __init__(self, latent: int, history: int, action: int, width: int) -> None:
        super().__init__()
        self.time = mlp(_TIME, 2 * _TIME, _TIME)
        self.layers = nn.ModuleList(nn.Linear(latent if not i else width, width) for i in range(_SCORE_LAYERS))
        self.films = nn.ModuleList(nn.Linear(_TIME + history + action, 2 * width) for _ in range(_SCORE_LAYERS))
        self.out = nn.Linear(width, latent)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, zk: Tensor, k: Tensor, history: Tensor, action: Tensor) -> Tensor:
        return self.given(history, action)(zk, k)

    def given(self, history: Tensor, action: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
        """eps_theta(., . | h, a): what the condition does to each layer is worked out once for all noise levels."""
        condition = torch.cat([history, action], -1)
        fixed = [F.linear(condition, film.weight[:, _TIME:], film.bias) for film in self._films()]

        def predict(zk: Tensor, k: Tensor) -> Tensor:
            time, x = self._time(k, zk.dtype), zk
            for layer, film, part in zip(self.layers, self._films(), fixed, strict=True):
                scale, shift = (part + F.linear(time, film.weight[:, :_TIME])).chunk(2, -1)
                x = F.silu(layer(x) * (1 + scale) + shift)
            out: Tensor = self.out(x)
            return out

        return predict

    def _films(self) -> list[nn.Linear]:
        return [film for film in self.films if isinstance(film, nn.Linear)]

    def _time(self, k: Tensor, dtype: torch.dtype) -> Tensor:
        half = _TIME // 2
        rates = torch.exp(-math.log(1e4) * torch.arange(half, device=k.device, dtype=dtype) / half)
        angles = k.to(dtype).unsqueeze(-1) * rates
        time: Tensor = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        return time


class Projector(nn.Module):
    """A latent as `tokens` soft tokens of a language model's input width (appendix E.9)."""

    def __init__(self, latent: int, hidden: int, tokens: int, width: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.net = mlp(latent, hidden, hidden, tokens * width, activation=nn.GELU)

    def forward(self, z: Tensor) -> Tensor:
        """(..., latent) -> (..., tokens, width)."""
        out: Tensor = self.net(z)
        return out.view(*z.shape[:-1], self.tokens, -1)
