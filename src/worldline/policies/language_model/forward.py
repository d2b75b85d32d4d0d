"""One batched forward pass of a causal language model over prompts of different lengths.

Prompts are padded on the left, so that all rows end at the same place and share one key-value cache. Logits are
computed for the last position only: a (batch, time, vocabulary) tensor of the prompts never exists.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, LinearAttentionCacheLayerMixin

from worldline.policies.language_model.attention import without_plans

Model = Any
"""A transformers causal language model (transformers publishes no types)."""

ROOM = 64
"""New tokens that fit into a cache before it is copied."""


@dataclass
class Prefix:
    """A batch of prompts that the model has read: cache, mask and the logits of what follows each."""

    cache: Any
    mask: Tensor  # (rows, time), 1 where a token is
    logits: Tensor  # (rows, vocabulary)

    @property
    def lengths(self) -> Tensor:
        return self.mask.sum(-1)

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but `rows`."""
        self.cache.batch_select_indices(rows)
        self.mask = self.mask[rows]


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """Keys and values in preallocated memory: a new token is written in place, where torch.cat would copy all."""

    keys: Tensor
    values: Tensor
    room: tuple[Tensor, Tensor] | None = None
    """Keys and values with their unused memory, (rows, heads, more time than is used, size)."""

    def fill(self, keys: Tensor, values: Tensor, length: int) -> None:
        """Start with `length` cached tokens and unused memory after them."""
        self.lazy_initialization(keys, values)
        self.room = keys, values
        self.keys, self.values = keys[..., :length, :], values[..., :length, :]

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        old = self.get_seq_length()
        new = old + key_states.shape[-2]
        if self.room is None or self.room[0].shape[-2] < new:
            self.room = _enlarged(self.keys, key_states, new), _enlarged(self.values, value_states, new)
        keys, values = self.room
        keys[..., old:new, :] = key_states
        values[..., old:new, :] = value_states
        self.keys, self.values = keys[..., :new, :], values[..., :new, :]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        if self.room is not None:
            keys, values = self.room
            self.fill(keys.index_select(0, indices), values.index_select(0, indices), self.get_seq_length())


def _enlarged(held: Tensor, added: Tensor, length: int) -> Tensor:
    room = added.new_empty(*added.shape[:-2], length + ROOM, added.shape[-1])
    if held.numel():
        room[..., : held.shape[-2], :] = held
    return room


def empty_cache(model: Model) -> Any:
    """The model's own kind of cache; layers of full attention get preallocated memory."""
    cache = DynamicCache(config=model.config)
    cache.layers = [RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def read(model: Model, prompts: Sequence[Sequence[int]]) -> Prefix:
    """Read the prompts in one pass."""
    ids, mask = left_padded(prompts, model.device)
    cache = empty_cache(model)
    logits = forward(model, ids, mask, positions(mask), cache, keep=1)
    return Prefix(cache, mask, logits[:, -1])


def forward(model: Model, ids: Tensor, mask: Tensor, position_ids: Tensor, cache: Any, keep: int = 0) -> Tensor:
    """Float32 logits of the last `keep` positions (0: all) of `ids`, read after what `cache` holds."""
    placed = {"position_ids": position_ids} if takes_positions(model) else {}
    with without_plans():
        out = model(
            input_ids=ids,
            attention_mask=mask,
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=keep,
            **placed,
        )
    logits: Tensor = out.logits
    return logits.float()


def left_padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and mask, (rows, longest); padding is token 0, masked out."""
    longest = max(len(row) for row in rows)
    ids = torch.tensor([[0] * (longest - len(row)) + list(row) for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return ids.to(device), mask.to(device)


def positions(mask: Tensor) -> Tensor:
    return (mask.cumsum(-1) - 1).clamp(min=0)


def takes_positions(model: Model) -> bool:
    return "position_ids" in inspect.signature(bare(model).forward).parameters


def is_recurrent(model: Model) -> bool:
    """Whether layers carry a recurrent state, which padding would change."""
    return any(isinstance(layer, LinearAttentionCacheLayerMixin) for layer in DynamicCache(config=model.config).layers)


def shares_prefix(model: Model) -> bool:
    """Whether continuations can be a tree behind a prompt: full attention in every layer, and `position_ids` taken."""
    layers = DynamicCache(config=model.config).layers
    plain = bool(layers) and all(type(layer) is DynamicLayer for layer in layers)
    return plain and takes_positions(model) and not getattr(model.config, "alibi", False)


def log_softmax(logits: Tensor, temperature: float) -> Tensor:
    """Log-probabilities at `temperature`; at 0 all mass lies on the (first) largest logit."""
    if temperature == 0.0:
        best = torch.full_like(logits, -torch.inf)
        return best.scatter_(-1, logits.argmax(-1, keepdim=True), 0.0)
    return torch.log_softmax(logits / temperature, dim=-1)


def entropy(logits: Tensor, temperature: float) -> Tensor:
    """Shannon entropy (nats) over the vocabulary; a greedy policy's is measured at temperature 1."""
    return entropy_of(torch.log_softmax(logits / (temperature or 1.0), dim=-1))


def entropy_of(logprobs: Tensor) -> Tensor:
    """Shannon entropy (nats) of log-probabilities."""
    return -(logprobs.exp() * logprobs).nan_to_num(0.0).sum(-1)


def chunks(sizes: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Indices in batches of similar size: each batch, padded to its largest member, stays within `budget`."""
    batch: list[int] = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        if batch and (len(batch) + 1) * sizes[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@contextmanager
def inference(model: Model) -> Iterator[None]:
    """No gradients and no dropout inside; the model's mode is restored afterwards."""
    with without_dropout(model), torch.inference_mode():
        yield


@contextmanager
def without_dropout(model: Model) -> Iterator[None]:
    """The model's mode is restored afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def bare(model: Model) -> Model:
    """The transformers model inside a PEFT wrapper, its adapters included."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
