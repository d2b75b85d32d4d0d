"""Keys and values of earlier prompts: a transcript only grows, so most of its next prompt has been read before.

The key is the token sequence alone: of a prompt that extends a cached one, only the rest is read. Prompts without a
cached prefix are read first, on their own (equal ones once), so that a batch of mostly cached prompts is not padded to
a few new ones. The oldest batches are dropped when memory runs out, and all of them when the model's weights change.
"""

from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from worldline.policies.language_model.forward import (
    ROOM,
    Model,
    Prefix,
    empty_cache,
    forward,
    left_padded,
    positions,
    read,
)

Ids = Sequence[int]


@dataclass(eq=False)
class PromptBatch:
    """Prompts read together: keys and values by layer, (rows, heads, time and unused, size); `mask` marks tokens."""

    layers: list[tuple[Tensor, Tensor]]
    mask: Tensor

    @cached_property
    def places(self) -> Tensor:
        """The position of each row's tokens, in order and right-aligned: padding comes first."""
        return self.mask.argsort(dim=1, stable=True)

    @cached_property
    def size(self) -> int:
        return sum(keys.nbytes + values.nbytes for keys, values in self.layers)


@dataclass(frozen=True)
class CachedPrefix:
    """The first `length` tokens of a prompt, cached in a row of `batch`."""

    batch: PromptBatch
    row: int
    length: int


class PrefixCache:
    """Reads prompts for one model of full attention, and keeps about `most_bytes` of keys and values."""

    def __init__(self, model: Model, most_bytes: int) -> None:
        self._model = model
        self._most_bytes = most_bytes
        self._index: dict[bytes, tuple[PromptBatch, int]] = {}
        self._weights: list[int] = []

    def read(self, prompts: Sequence[Ids]) -> Prefix:
        """The result of `forward.read`, computed for the uncached tokens only."""
        self._forget_if_trained()
        unread = [prompt for prompt, cached in zip(prompts, self._find(prompts), strict=True) if cached is None]
        if unread:
            bodies = list(dict.fromkeys(tuple(prompt[:-1]) for prompt in unread))
            self._add(bodies, read(self._model, bodies))
        prefixes = [cached for cached in self._find(prompts) if cached is not None]
        prefix = self._go_on(prompts, prefixes)
        for prompt, cached in zip(prompts, prefixes, strict=True):
            self._index.pop(_key(prompt[: cached.length]), None)  # the longer prompt replaces it
        self._add(prompts, prefix)
        self._make_room()
        return prefix

    def forget(self) -> None:
        self._index.clear()

    def order(self, prompts: Sequence[Ids]) -> Iterator[list[int]]:
        """Rows of the prompts wave by wave, of as many growing prompts at a time as the cache holds.

        A wave's batches and those that it extends are there together: each may take half of the memory.
        """
        for rows in growing(prompts, self._most_bytes // (2 * token_bytes(self._model))):
            for wave in waves([prompts[row] for row in rows]):
                yield [rows[at] for at in wave]

    def _forget_if_trained(self) -> None:
        weights = [parameter._version for parameter in self._model.parameters()]
        if weights != self._weights:
            self.forget()
        self._weights = weights

    def _find(self, prompts: Sequence[Ids]) -> list[CachedPrefix | None]:
        lengths = _lengths(self._index)
        keys = [_longest_prefix(_key(prompt), self._index, lengths) for prompt in prompts]
        return [
            # At least one token must be read to get logits.
            None if key is None else CachedPrefix(*self._index[key], min(len(key) // _WIDTH, len(prompt) - 1))
            for prompt, key in zip(prompts, keys, strict=True)
        ]

    def _add(self, prompts: Sequence[Ids], prefix: Prefix) -> None:
        batch = PromptBatch([layer.room for layer in prefix.cache.layers], prefix.mask)
        for row, prompt in enumerate(prompts):
            self._index[_key(prompt)] = (batch, row)

    def _make_room(self) -> None:
        batches = list(dict.fromkeys(batch for batch, _ in self._index.values()))
        excess = sum(batch.size for batch in batches) - self._most_bytes
        for oldest in batches:
            if excess <= 0:
                break
            excess -= oldest.size
            self._index = {key: entry for key, entry in self._index.items() if entry[0] is not oldest}

    def _go_on(self, prompts: Sequence[Ids], prefixes: Sequence[CachedPrefix]) -> Prefix:
        """Read what follows the cached part of each prompt."""
        device = self._model.device
        lengths = torch.tensor([cached.length for cached in prefixes], device=device)
        longest = int(lengths.max())
        ids, new = left_padded([p[cached.length :] for p, cached in zip(prompts, prefixes, strict=True)], device)
        cache = empty_cache(self._model)
        room = longest + ids.shape[1] + ROOM
        for layer, (keys, values) in zip(cache.layers, _gathered(prefixes, lengths, longest, room), strict=True):
            layer.fill(keys, values, longest)
        past = (torch.arange(longest, device=device) >= longest - lengths[:, None]).long()
        mask = torch.cat([past, new], dim=1)
        logits = forward(self._model, ids, mask, positions(new) + lengths[:, None], cache, keep=1)
        return Prefix(cache, mask, logits[:, -1])


@dataclass(frozen=True)
class CachedRows:
    """Rows of the new batch that `batch` holds: their index here, their row and their positions there."""

    batch: PromptBatch
    here: list[int]
    rows: Tensor
    places: Tensor


def _gathered(
    prefixes: Sequence[CachedPrefix], lengths: Tensor, longest: int, room: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values of the cached tokens, layer by layer: right-aligned to `longest`, then unused up to `room`."""
    members: dict[PromptBatch, list[int]] = {}
    for i, cached in enumerate(prefixes):
        members.setdefault(cached.batch, []).append(i)
    parts = []
    for batch, here in members.items():
        rows = torch.tensor([prefixes[i].row for i in here], device=lengths.device)
        # Tokens are the last of `places`; the mask hides what lies before a row's first token or after `longest`.
        time = batch.mask.shape[1]
        start = time - batch.mask.sum(1)[rows] - (longest - lengths[here])
        steps = (torch.arange(room, device=lengths.device) + start[:, None]).clamp(0, time - 1)
        parts.append(CachedRows(batch, here, rows, batch.places[rows].gather(1, steps)))
    for layer in range(len(parts[0].batch.layers)):
        yield _assembled(parts, layer, 0, len(prefixes)), _assembled(parts, layer, 1, len(prefixes))


def _assembled(parts: Sequence[CachedRows], layer: int, which: int, rows: int) -> Tensor:
    selected = [_taken(part.batch.layers[layer][which], part) for part in parts]
    if len(selected) == 1:
        return selected[0]
    whole = selected[0].new_empty(rows, *selected[0].shape[1:])
    for part, values in zip(parts, selected, strict=True):
        whole[part.here] = values
    return whole


def _taken(held: Tensor, part: CachedRows) -> Tensor:
    """held[row, head, place] for the part's rows and places: one flat index_select, much faster than indexing."""
    _, heads, time, size = held.shape
    head = torch.arange(heads, device=held.device)[:, None]
    flat = (part.rows[:, None, None] * heads + head) * time + part.places[:, None, :]
    return held.view(-1, size).index_select(0, flat.view(-1)).view(*flat.shape, size)


def token_bytes(model: Model) -> int:
    """Memory of the keys and values of one token."""
    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return int(2 * config.num_hidden_layers * heads * size * model.dtype.itemsize)


def growing(prompts: Sequence[Ids], most_tokens: int) -> list[range]:
    """Rows side by side whose longest prompts have at most `most_tokens` together, or that are one growing prompt.

    A prompt grows as long as each row extends the one before.
    """
    keys = [_key(prompt) for prompt in prompts]
    starts = [row for row in range(len(keys)) if not row or not keys[row].startswith(keys[row - 1])]
    cuts, taken = list[int](), most_tokens
    for start, end in pairwise([*starts, len(keys)]):
        longest = len(prompts[end - 1]) + ROOM
        if taken + longest > most_tokens:
            cuts.append(start)
            taken = 0
        taken += longest
    return [range(start, end) for start, end in pairwise([*cuts, len(keys)])]


def waves(prompts: Sequence[Ids]) -> list[list[int]]:
    """Rows of the prompts in the order to read them: each wave extends prompts of the waves before."""
    depths: dict[bytes, int] = {}
    keys = [_key(prompt) for prompt in prompts]
    distinct = set(keys)
    lengths = _lengths(distinct)
    for key in sorted(distinct, key=len):
        parent = _longest_prefix(key[:-_WIDTH], distinct, lengths)
        depths[key] = 0 if parent is None else depths[parent] + 1
    rows_by_depth: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        rows_by_depth.setdefault(depths[key], []).append(row)
    return [rows_by_depth[depth] for depth in sorted(rows_by_depth)]


_WIDTH = array("i").itemsize


def _longest_prefix(key: bytes, keys: Container[bytes], lengths: Sequence[int]) -> bytes | None:
    """The longest of `keys` that `key` begins with, itself included; `lengths` are those of `keys`, descending."""
    starts = (key[:length] for length in lengths if length <= len(key))
    return next((start for start in starts if start in keys), None)


def _lengths(keys: Iterable[bytes]) -> list[int]:
    return sorted({len(key) for key in keys}, reverse=True)


def _key(ids: Ids) -> bytes:
    return array("i", ids).tobytes()
