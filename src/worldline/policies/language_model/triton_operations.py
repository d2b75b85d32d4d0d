"""The operations of a layer as three kernels, compiled by Triton at their first call.

What follows a token is decided by a step of many small kernels: torch takes seven to rotate, write and look back, and
its masked attention walks along the keys at half the memory's speed. Sums are in float32, as torch's are.
"""

# Triton publishes no types, and reads these functions as its own language.
# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64
"""Keys that are looked at together; memory comes in multiples of it."""
LEAST = 16
"""Rows of the smallest matrix product that Triton has."""
ELEMENTS = 1024


class TritonOperations:
    """For a GPU, and heads whose size is a power of two."""

    def read(self, heads: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        rows, time, _, size = heads.shape
        count = keys.shape[1]
        turned = heads.shape[2] - count
        _read[(rows * time,)](
            heads, cos, sin, keys, values, time, _row_stride(cos),
            TURNED=turned, COUNT=count, SIZE=size,
            TURNED_ROOM=triton.next_power_of_2(turned), COUNT_ROOM=triton.next_power_of_2(count),
        )  # packed lines read better  # fmt: skip
        return heads[..., : turned - count, :], heads[..., turned - count : turned, :], heads[..., turned:, :]

    def step(
        self, heads: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor, at: Tensor, hidden: Tensor
    ) -> Tensor:
        rows, count, time, size = keys.shape
        queries = heads.shape[2] - 2 * count
        seen = torch.empty(rows, 1, queries * size, dtype=heads.dtype, device=heads.device)
        _step[(rows, count)](
            heads, cos, sin, keys, values, hidden, at, seen, time, _row_stride(cos), size**-0.5,
            QUERIES=queries, COUNT=count, SHARED=queries // count, SIZE=size,
            SHARED_ROOM=max(LEAST, triton.next_power_of_2(queries // count)), BLOCK=BLOCK,
        )  # packed lines read better  # fmt: skip
        return seen

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        _gate[(triton.cdiv(gate.numel(), ELEMENTS),)](gate, up, gate.numel(), ELEMENTS=ELEMENTS)
        return gate


def _row_stride(angles: Tensor) -> int:
    """From one row to the next; one row may serve all."""
    return angles.stride(0) if angles.shape[0] > 1 else 0


@triton.jit
def _read(
    heads, cos, sin, keys, values, time, row_stride,
    TURNED: tl.constexpr, COUNT: tl.constexpr, SIZE: tl.constexpr,
    TURNED_ROOM: tl.constexpr, COUNT_ROOM: tl.constexpr,
):  # fmt: skip
    """One token: its queries and keys rotated in place, its keys and values copied to where they are kept."""
    HALF: tl.constexpr = SIZE // 2
    token = tl.program_id(0).to(tl.int64)
    row, place = token // time, token % time
    pair, head = tl.arange(0, HALF), tl.arange(0, TURNED_ROOM)
    c = tl.load(cos + row * row_stride + place * SIZE + pair)[None].to(tl.float32)
    s = tl.load(sin + row * row_stride + place * SIZE + pair)[None].to(tl.float32)
    own = heads + token * (TURNED + COUNT) * SIZE
    at = own + head[:, None] * SIZE + pair[None]
    inside = (head < TURNED)[:, None]
    first = tl.load(at, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(at + HALF, mask=inside, other=0.0).to(tl.float32)
    turned_first = (first * c - second * s).to(heads.dtype.element_ty)
    turned_second = (second * c + first * s).to(heads.dtype.element_ty)
    tl.store(at, turned_first, mask=inside)
    tl.store(at + HALF, turned_second, mask=inside)
    key = head - (TURNED - COUNT)
    kept = keys + ((row * COUNT + key) * time + place)[:, None] * SIZE + pair[None]
    is_key = inside & (key >= 0)[:, None]
    tl.store(kept, turned_first, mask=is_key)
    tl.store(kept + HALF, turned_second, mask=is_key)
    number, whole = tl.arange(0, COUNT_ROOM), tl.arange(0, SIZE)
    is_value = (number < COUNT)[:, None]
    value = tl.load(own + (TURNED + number)[:, None] * SIZE + whole[None], mask=is_value, other=0.0)
    tl.store(values + ((row * COUNT + number) * time + place)[:, None] * SIZE + whole[None], value, mask=is_value)


@triton.jit
def _step(
    heads, cos, sin, keys, values, hidden, at, seen, time, row_stride, scale,
    QUERIES: tl.constexpr, COUNT: tl.constexpr, SHARED: tl.constexpr, SIZE: tl.constexpr,
    SHARED_ROOM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row and key head: the new token's queries look at its own key, then along the keys before it."""
    HALF: tl.constexpr = SIZE // 2
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    pair, whole, member = tl.arange(0, HALF), tl.arange(0, SIZE), tl.arange(0, SHARED_ROOM)
    c = tl.load(cos + row * row_stride + pair).to(tl.float32)
    s = tl.load(sin + row * row_stride + pair).to(tl.float32)
    own = heads + row * (QUERIES + 2 * COUNT) * SIZE
    room = (row * COUNT + head) * time * SIZE
    place = tl.load(at)

    key = own + (QUERIES + head) * SIZE + pair
    first, second = tl.load(key).to(tl.float32), tl.load(key + HALF).to(tl.float32)
    key_first = (first * c - second * s).to(keys.dtype.element_ty)
    key_second = (second * c + first * s).to(keys.dtype.element_ty)
    tl.store(keys + room + place * SIZE + pair, key_first)
    tl.store(keys + room + place * SIZE + HALF + pair, key_second)
    value = tl.load(own + (QUERIES + COUNT + head) * SIZE + whole)
    tl.store(values + room + place * SIZE + whole, value)

    inside = (member < SHARED)[:, None]
    query = own + (head * SHARED + member)[:, None] * SIZE + pair[None]
    first = tl.load(query, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(query + HALF, mask=inside, other=0.0).to(tl.float32)
    query_first = (first * c[None] - second * s[None]).to(keys.dtype.element_ty)
    query_second = (second * c[None] + first * s[None]).to(keys.dtype.element_ty)

    # A softmax carried along: the largest score so far, the sum of the weights, the weighted sum of the values.
    products = query_first.to(tl.float32) * key_first[None].to(tl.float32)
    products += query_second.to(tl.float32) * key_second[None].to(tl.float32)
    largest = tl.sum(products, 1) * scale
    total = tl.full([SHARED_ROOM], 1.0, tl.float32)
    sums = tl.zeros([SHARED_ROOM, SIZE], tl.float32) + value[None].to(tl.float32)
    for start in range(0, time, BLOCK):
        places = start + tl.arange(0, BLOCK)
        there = (places < time)[:, None]
        mask = tl.load(hidden + row * time + places, mask=places < time, other=float("-inf")).to(tl.float32)
        mask = tl.where(places == place, float("-inf"), mask)
        block = keys + room + places[:, None] * SIZE + pair[None]
        block_first = tl.load(block, mask=there, other=0.0)
        block_second = tl.load(block + HALF, mask=there, other=0.0)
        block_values = tl.load(values + room + places[:, None] * SIZE + whole[None], mask=there, other=0.0)
        scores = tl.dot(query_first, tl.trans(block_first), input_precision="ieee")
        scores += tl.dot(query_second, tl.trans(block_second), input_precision="ieee")
        scores = scores * scale + mask[None]
        larger = tl.maximum(largest, tl.max(scores, 1))
        weights, fading = tl.exp(scores - larger[:, None]), tl.exp(largest - larger)
        total = total * fading + tl.sum(weights, 1)
        sums = sums * fading[:, None] + tl.dot(weights.to(block_values.dtype), block_values, input_precision="ieee")
        largest = larger
    to = seen + (row * QUERIES + head * SHARED + member)[:, None] * SIZE + whole[None]
    tl.store(to, (sums / total[:, None]).to(seen.dtype.element_ty), mask=inside)


@triton.jit
def _gate(gate, up, count, ELEMENTS: tl.constexpr):
    """silu(gate) * up, written over `gate`."""
    place = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    inside = place < count
    x = tl.load(gate + place, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(up + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(gate + place, (x * tl.sigmoid(x) * y).to(gate.dtype.element_ty), mask=inside)
