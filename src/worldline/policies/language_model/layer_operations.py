"""What a layer of Llama's shape does between its matrix products: rotate, note keys and values, look back, gate.

`TorchOperations` runs anywhere. `triton_operations` has the same for a GPU, in a tenth of the launches.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Operations(Protocol):
    """`heads`, (rows, time, queries + keys + values, size), are as one product gives them, and are used up.

    `keys` and `values` are the memory of one layer, (rows, heads, time, size); `cos` and `sin` (rows or 1, time, size).
    """

    def read(self, heads: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        """Queries and keys, rotated, and values, each (rows, time, heads, size); the latter two are noted, too."""

    def step(
        self, heads: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, at: Tensor, hidden: Tensor
    ) -> Tensor:
        """What one token a row sees, (rows, 1, queries * size), its own key and value noted at `at`.

        `hidden`, (rows, 1, 1, time), is -inf where a row has no token, and 0 elsewhere.
        """

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        """silu(gate) * up; both are used up."""


class TorchOperations:
    """A few kernels for each."""

    def read(self, heads: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        count = keys.shape[1]
        turned, value = _rotated(heads[..., :-count, :], cos, sin), heads[..., -count:, :]
        query, key = turned[..., :-count, :], turned[..., -count:, :]
        keys.copy_(key.transpose(1, 2))
        values.copy_(value.transpose(1, 2))
        return query, key, value

    def step(
        self, heads: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, at: Tensor, hidden: Tensor
    ) -> Tensor:
        rows, count, _, size = keys.shape
        turned = _rotated(heads[..., :-count, :], cos, sin)
        keys.index_copy_(2, at, turned[..., -count:, :].transpose(1, 2))
        values.index_copy_(2, at, heads[..., -count:, :].transpose(1, 2))
        groups = turned[..., :-count, :].reshape(rows, count, -1, size)  # queries that share keys, side by side
        mask = hidden.expand(-1, -1, groups.shape[2], -1)
        return F.scaled_dot_product_attention(groups, keys, values, mask).reshape(rows, 1, -1)

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        return F.silu(gate).mul_(up)


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions: each pair of numbers, half a head apart, turned by its angle."""
    half = heads.shape[-1] // 2
    cos, sin = cos[..., None, :half], sin[..., None, :half]
    turned = torch.empty_like(heads)
    first, second = heads[..., :half], heads[..., half:]
    torch.mul(first, cos, out=turned[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=turned[..., half:]).addcmul_(first, sin)
    return turned
