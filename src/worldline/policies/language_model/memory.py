"""Memory for keys and values at addresses that stay, shared by batches of every shape, one at a time."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from worldline.policies.language_model.forward import Model

SPARE_BYTES = 2**30
"""At most this much more is taken than is needed now."""


@dataclass(frozen=True)
class CacheShape:
    """What a model keeps of a token: keys and values of `heads` heads of `size` numbers in each of `layers` layers."""

    layers: int
    heads: int
    size: int
    dtype: torch.dtype
    device: torch.device


class KeyValueMemory:
    """One piece of memory, seen as a batch of any shape. It grows to the largest batch; older views are then void."""

    def __init__(self, shape: CacheShape) -> None:
        self._shape = shape
        self._flat = torch.zeros(0, dtype=shape.dtype, device=shape.device)

    def fits(self, rows: int, time: int) -> bool:
        return math.prod(self._sizes(rows, time)) <= self._flat.numel()

    def grow(self, rows: int, time: int) -> None:
        """Make room, and some more than that: prompts grow during an episode, and what was recorded in smaller memory
        is void. New memory is zero, for a mask does not keep NaN out."""
        needed = math.prod(self._sizes(rows, time))
        size = needed + min(8 * needed, SPARE_BYTES // self._flat.element_size())
        self._flat = self._flat.new_zeros(0)  # the old memory is free before larger memory is taken
        try:
            self._flat = self._flat.new_zeros(size)
        except torch.OutOfMemoryError:
            self._flat = self._flat.new_zeros(needed)

    def batch(self, rows: int, time: int) -> Tensor:
        """(layers, 2, rows, heads, time, size): keys and values of a batch that fits."""
        sizes = self._sizes(rows, time)
        return self._flat[: math.prod(sizes)].view(sizes)

    def clear(self) -> None:
        self._flat.zero_()

    def _sizes(self, rows: int, time: int) -> tuple[int, ...]:
        return (self._shape.layers, 2, rows, self._shape.heads, time, self._shape.size)


class WrittenLayer(DynamicLayer):  # type: ignore[misc]  # transformers has no types
    """Keys and values of whole prompts are written to memory; attention sees them as they come."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self._room = keys, values

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        keys, values = self._room
        keys.copy_(key_states)
        values.copy_(value_states)
        return key_states, value_states


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


def cache_of(model: Model, layers: list[Any]) -> Any:
    """A transformers cache of these layers."""
    cache = DynamicCache(config=model.config)
    cache.layers = layers
    return cache
