"""Decoding token by token behind a batch of prompts.

A step of a small model on a GPU is mostly Python that launches kernels, so there one step is recorded as a CUDA graph
and replayed. That needs tensors that stay in place: keys and values are written into preallocated memory at an index
that is itself a tensor, and attention sees all of that memory through a mask.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from worldline.policies.language_model import attention
from worldline.policies.language_model.forward import (
    Model,
    Prefix,
    RoomyLayer,
    bare,
    entropy,
    forward,
    log_softmax,
    shares_prefix,
)
from worldline.types import uniform

LEAST = 8
"""With fewer new tokens than this, recording a step costs more than it saves."""


def begin(model: Model, prefix: Prefix, most: int) -> "Steps":
    """The decoder of up to `most` tokens that suits the model and its device."""
    recorded = model.device.type == "cuda" and most >= LEAST and recordable(model, prefix)
    return RecordedSteps(model, prefix, most) if recorded else Steps(model, prefix)


def recordable(model: Model, prefix: Prefix) -> bool:
    """Whether the model has full attention, takes our masks unchanged, and lies on one device."""
    plain = shares_prefix(model) and attention.masked_by_torch(model)
    return plain and all(type(at) is RoomyLayer and at.keys.device == model.device for at in prefix.cache.layers)


class Steps:
    """Decodes one token of every row at a time behind the prompts of `prefix`, and changes `prefix`."""

    patience = 0
    """Steps to wait before rows that have ended leave the batch."""

    def __init__(self, model: Model, prefix: Prefix) -> None:
        self._model, self._prefix, self._position = model, prefix, prefix.lengths

    def read(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of each row, (rows, vocabulary); valid until the next call."""
        prefix = self._prefix
        prefix.mask = pad(prefix.mask, (0, 1), value=1)
        logits = forward(self._model, tokens[:, None], prefix.mask, self._position[:, None], prefix.cache)[:, -1]
        self._position = self._position + 1
        return logits

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but `rows`."""
        self._prefix.keep(rows)
        self._position = self._position[rows]


class PlacedLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """Keys and values with all the memory they will need; new ones are written at the index `at`, a tensor."""

    def __init__(self, keys: Tensor, values: Tensor, at: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values, self._at = keys, values, at

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.keys.index_copy_(-2, self._at, key_states)
        self.values.index_copy_(-2, self._at, value_states)
        return self.keys, self.values


class RecordedSteps(Steps):
    """The same with tensors that stay in place: the first step runs, the second is recorded, the rest replay it."""

    patience = 32

    def __init__(self, model: Model, prefix: Prefix, most: int) -> None:
        super().__init__(bare(model), prefix)
        used, device = prefix.mask.shape[1], prefix.mask.device
        rooms = [layer.room for layer in prefix.cache.layers]
        prefix.cache.layers.clear()  # frees the old memory before larger memory is allocated
        lacking = max(0, used + most - rooms[0][0].shape[-2])
        self._at = torch.tensor([used], device=device)
        self._cache = DynamicCache(config=model.config)
        self._cache.layers = [
            PlacedLayer(_cleared(keys, used, lacking), _cleared(values, used, lacking), self._at)
            for keys, values in rooms
        ]
        self._seen = pad(prefix.mask.bool(), (0, self._cache.layers[0].keys.shape[-2] - used))[:, None, None]
        self._tokens = torch.zeros_like(self._position)
        self._begun, self._records = False, device.type == "cuda"
        self._graph: torch.cuda.CUDAGraph | None = None

    def read(self, tokens: Tensor) -> Tensor:
        self._tokens.copy_(tokens)
        if self._begun and self._records and self._graph is None:
            self._record()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._logits, self._begun = self._step(), True
        return self._logits

    def _record(self) -> None:
        """Record a step; a model that synchronises within a step cannot be recorded, and keeps running step by step."""
        graph, device = torch.cuda.CUDAGraph(), self._at.device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch gives it no types
        try:
            with torch.cuda.device(device), torch.cuda.graph(graph, stream=stream):
                self._logits = self._step()
        except RuntimeError:
            self._records = False
        else:
            self._graph = graph

    def keep(self, rows: Tensor) -> None:
        self._cache.batch_select_indices(rows)
        self._seen, self._position, self._tokens = self._seen[rows], self._position[rows], self._tokens[rows]
        self._begun, self._graph = False, None

    def _step(self) -> Tensor:
        self._seen.index_fill_(-1, self._at, True)
        logits = forward(self._model, self._tokens[:, None], self._seen, self._position[:, None], self._cache, keep=1)
        self._at += 1
        self._position += 1
        return logits[:, -1]


def _cleared(room: Tensor, used: int, lacking: int) -> Tensor:
    """`room` enlarged by `lacking`, its unused part zero: a mask does not keep NaN out."""
    room[..., used:, :] = 0
    return pad(room, (0, 0, 0, lacking)) if lacking else room


@dataclass
class Response:
    """A sampled response: tokens with the end token, their log-probabilities, the entropy before each."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)

    def add(self, token: int, logprob: float, entropy: float) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.entropies.append(entropy)


def generate(
    model: Model,
    prefix: Prefix,
    seeds: Sequence[int],
    *,
    stops: Collection[int],
    max_new_tokens: int,
    temperature: float,
) -> list[Response]:
    """A sampled response to each row of `prefix`, which is changed."""
    responses = [Response() for _ in seeds]
    rows, going = list(range(len(seeds))), set(range(len(seeds)))
    logits, steps, since = prefix.logits, begin(model, prefix, max_new_tokens - 1), 0
    for place in range(max_new_tokens):
        draws = [uniform(seeds[row], "token", place) if row in going else 0.0 for row in rows]
        tokens, logprobs, entropies = _sample(logits, draws, temperature)
        for row, token, logprob, spread in zip(rows, tokens.tolist(), logprobs, entropies, strict=True):
            if row in going:
                responses[row].add(token, logprob, spread)
        going = {row for row in going if responses[row].ids[-1] not in stops}
        if not going or place + 1 == max_new_tokens:
            break
        if 2 * len(going) <= len(rows) and place - since >= steps.patience:  # copying costs as much as some decoding
            kept = torch.tensor([i for i, row in enumerate(rows) if row in going], device=tokens.device)
            steps.keep(kept)
            tokens, since = tokens[kept], place
            rows = [row for row in rows if row in going]
        logits = steps.read(tokens)
    return responses


def _sample(logits: Tensor, draws: Sequence[float], temperature: float) -> tuple[Tensor, list[float], list[float]]:
    """The token each draw gives, its log-probability, and the entropy of the distribution it came from."""
    logprobs = log_softmax(logits, temperature)
    cumulative = logprobs.double().exp().cumsum(-1)
    aims = torch.tensor(draws, dtype=torch.float64, device=logits.device) * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, aims[:, None], right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    chosen = logprobs.gather(-1, tokens[:, None])[:, 0]
    return tokens, chosen.tolist(), entropy(logits, temperature).tolist()
