"""Reading on token by token behind a batch of prompts.

A step of a small model on a GPU is mostly Python that launches kernels, so there it is recorded once, as a CUDA graph,
and then replayed. That needs tensors that stay where they are: keys and values are written into the cache's room at a
place that is itself a tensor, and attention looks at all of the room through a mask.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from worldline.policies import attention
from worldline.policies.forward import Model, Prefix, RoomyLayer, bare, forward, shares_prefix

LEAST = 8
"""Tokens below which recording a step costs more than it saves."""


def begin(model: Model, prefix: Prefix, most: int) -> "Steps":
    """The way to read on by up to `most` tokens that suits the model and where it is."""
    recorded = model.device.type == "cuda" and most >= LEAST and recordable(model, prefix)
    return RecordedSteps(model, prefix, most) if recorded else Steps(model, prefix)


def recordable(model: Model, prefix: Prefix) -> bool:
    """Whether the model attends plainly, takes our masks as they are, and lies on one device."""
    plain = shares_prefix(model) and attention.masked_by_torch(model)
    return plain and all(type(at) is RoomyLayer and at.keys.device == model.device for at in prefix.cache.layers)


class Steps:
    """Behind the prompts of `prefix` (which is used up), one token of every row at a time."""

    patience = 0
    """Steps to wait before rows that have ended are let go."""

    def __init__(self, model: Model, prefix: Prefix) -> None:
        self._model, self._prefix, self._position = model, prefix, prefix.lengths

    def read(self, tokens: Tensor) -> Tensor:
        """The logits behind one more token of each row, (rows, vocabulary); to be used before the next ones."""
        prefix = self._prefix
        prefix.mask = pad(prefix.mask, (0, 1), value=1)
        logits = forward(self._model, tokens[:, None], prefix.mask, self._position[:, None], prefix.cache)[:, -1]
        self._position = self._position + 1
        return logits

    def keep(self, rows: Tensor) -> None:
        """Only `rows` go on."""
        self._prefix.keep(rows)
        self._position = self._position[rows]


class PlacedLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values with all the room they will need; new ones are written at the place `at`, a tensor."""

    def __init__(self, keys: Tensor, values: Tensor, at: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values, self._at = keys, values, at

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.keys.index_copy_(-2, self._at, key_states)
        self.values.index_copy_(-2, self._at, value_states)
        return self.keys, self.values


class RecordedSteps(Steps):
    """The same with every tensor in its place: the first step is done, the second recorded, all others replayed."""

    patience = 32

    def __init__(self, model: Model, prefix: Prefix, most: int) -> None:
        super().__init__(bare(model), prefix)
        used, device = prefix.mask.shape[1], prefix.mask.device
        rooms = [layer.room for layer in prefix.cache.layers]
        prefix.cache.layers.clear()  # a room that is enlarged is not kept beside the larger one
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
        """Record a step; a model that waits for its own results on the way cannot be, and goes on as before."""
        graph, device = torch.cuda.CUDAGraph(), self._at.device
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
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
    """With as much more room, and nothing in what is not used yet: a mask does not keep out what is not a number."""
    room[..., used:, :] = 0
    return pad(room, (0, 0, 0, lacking)) if lacking else room
