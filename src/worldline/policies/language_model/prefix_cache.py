"""What a model has read, kept for the next step: a transcript only grows, so most of its next prompt is known.

Keyed by nothing but tokens: a prompt that begins with one read before is read from there on. Prompts never met are
read on their own first (equal ones once), so that a batch of mostly known prompts is not padded to a few new ones.
The oldest readings are given up when memory runs out, and all of them as soon as the model's weights change.
"""

from array import array
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

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
class Reading:
    """Prompts read together: keys and values by layer, (rows, heads, time and room, size); `mask` marks the tokens."""

    layers: list[tuple[Tensor, Tensor]]
    mask: Tensor

    @cached_property
    def places(self) -> Tensor:
        """Where each row's tokens lie, in order and right-aligned: padding comes first."""
        return self.mask.argsort(dim=1, stable=True)

    @cached_property
    def size(self) -> int:
        return sum(keys.nbytes + values.nbytes for keys, values in self.layers)


@dataclass(frozen=True)
class Known:
    """The first `length` tokens of a prompt, read before as a row of `reading`."""

    reading: Reading
    row: int
    length: int


class Memory:
    """Reads prompts for one model of plain attention, and remembers them in about `most_bytes`."""

    def __init__(self, model: Model, most_bytes: int) -> None:
        self._model = model
        self._most_bytes = most_bytes
        self._index: dict[bytes, tuple[Reading, int]] = {}
        self._weights: list[int] = []

    def read(self, prompts: Sequence[Ids]) -> Prefix:
        """What `forward.read` gives, reading only what is new."""
        self._forget_if_trained()
        unknown = [prompt for prompt, found in zip(prompts, self._find(prompts), strict=True) if found is None]
        if unknown:
            bodies = list(dict.fromkeys(tuple(prompt[:-1]) for prompt in unknown))
            self._add(bodies, read(self._model, bodies))
        known = [found for found in self._find(prompts) if found is not None]
        prefix = self._go_on(prompts, known)
        for prompt, found in zip(prompts, known, strict=True):
            self._index.pop(_key(prompt[: found.length]), None)  # the longer one serves from now on
        self._add(prompts, prefix)
        self._make_room()
        return prefix

    def forget(self) -> None:
        self._index.clear()

    def _forget_if_trained(self) -> None:
        weights = [parameter._version for parameter in self._model.parameters()]
        if weights != self._weights:
            self.forget()
        self._weights = weights

    def _find(self, prompts: Sequence[Ids]) -> list[Known | None]:
        lengths = _lengths(self._index)
        keys = [_longest_prefix(_key(prompt), self._index, lengths) for prompt in prompts]
        return [
            # Something must be left to read.
            None if key is None else Known(*self._index[key], min(len(key) // _WIDTH, len(prompt) - 1))
            for prompt, key in zip(prompts, keys, strict=True)
        ]

    def _add(self, prompts: Sequence[Ids], prefix: Prefix) -> None:
        reading = Reading([layer.room for layer in prefix.cache.layers], prefix.mask)
        for row, prompt in enumerate(prompts):
            self._index[_key(prompt)] = (reading, row)

    def _make_room(self) -> None:
        readings = list(dict.fromkeys(reading for reading, _ in self._index.values()))
        excess = sum(reading.size for reading in readings) - self._most_bytes
        for oldest in readings:
            if excess <= 0:
                break
            excess -= oldest.size
            self._index = {key: found for key, found in self._index.items() if found[0] is not oldest}

    def _go_on(self, prompts: Sequence[Ids], known: Sequence[Known]) -> Prefix:
        """Read what follows the known part of each prompt."""
        device = self._model.device
        lengths = torch.tensor([found.length for found in known], device=device)
        longest = int(lengths.max())
        ids, new = left_padded([p[found.length :] for p, found in zip(prompts, known, strict=True)], device)
        cache = empty_cache(self._model)
        room = longest + ids.shape[1] + ROOM
        for layer, (keys, values) in zip(cache.layers, _gathered(known, lengths, longest, room), strict=True):
            layer.fill(keys, values, longest)
        past = (torch.arange(longest, device=device) >= longest - lengths[:, None]).long()
        mask = torch.cat([past, new], dim=1)
        logits = forward(self._model, ids, mask, positions(new) + lengths[:, None], cache, keep=1)
        return Prefix(cache, mask, logits[:, -1])


@dataclass(frozen=True)
class Part:
    """Rows of a batch that one reading knows: which of the batch, which of the reading, and where its tokens lie."""

    reading: Reading
    here: list[int]
    rows: Tensor
    places: Tensor


def _gathered(known: Sequence[Known], lengths: Tensor, longest: int, room: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Keys and values of the known tokens, layer by layer: right-aligned to `longest`, then room up to `room`."""
    members: dict[Reading, list[int]] = {}
    for i, found in enumerate(known):
        members.setdefault(found.reading, []).append(i)
    parts = []
    for reading, here in members.items():
        rows = torch.tensor([known[i].row for i in here], device=lengths.device)
        # Tokens are the last of `places`; what comes before a row's first token or after `longest` is never looked at.
        time = reading.mask.shape[1]
        start = time - reading.mask.sum(1)[rows] - (longest - lengths[here])
        steps = (torch.arange(room, device=lengths.device) + start[:, None]).clamp(0, time - 1)
        parts.append(Part(reading, here, rows, reading.places[rows].gather(1, steps)))
    for layer in range(len(parts[0].reading.layers)):
        yield _assembled(parts, layer, 0, len(known)), _assembled(parts, layer, 1, len(known))


def _assembled(parts: Sequence[Part], layer: int, which: int, rows: int) -> Tensor:
    found = [_taken(part.reading.layers[layer][which], part) for part in parts]
    if len(found) == 1:
        return found[0]
    whole = found[0].new_empty(rows, *found[0].shape[1:])
    for part, values in zip(parts, found, strict=True):
        whole[part.here] = values
    return whole


def _taken(held: Tensor, part: Part) -> Tensor:
    """held[row, head, place] for the part's rows and places: one flat selection, much faster than indexing."""
    _, heads, time, size = held.shape
    head = torch.arange(heads, device=held.device)[:, None]
    flat = (part.rows[:, None, None] * heads + head) * time + part.places[:, None, :]
    return held.view(-1, size).index_select(0, flat.view(-1)).view(*flat.shape, size)


def waves(prompts: Sequence[Ids]) -> list[list[int]]:
    """The prompts in the order to read them: each after the one it goes on from, the rest together."""
    depths: dict[bytes, int] = {}
    keys = [_key(prompt) for prompt in prompts]
    known = set(keys)
    lengths = _lengths(known)
    for key in sorted(known, key=len):
        parent = _longest_prefix(key[:-_WIDTH], known, lengths)
        depths[key] = 0 if parent is None else depths[parent] + 1
    found: dict[int, list[int]] = {}
    for row, key in enumerate(keys):
        found.setdefault(depths[key], []).append(row)
    return [found[depth] for depth in sorted(found)]


_WIDTH = array("i").itemsize


def _longest_prefix(key: bytes, known: Container[bytes], lengths: Sequence[int]) -> bytes | None:
    """The longest known key that `key` begins with, itself included; `lengths` are those of the known, falling."""
    starts = (key[:length] for length in lengths if length <= len(key))
    return next((start for start in starts if start in known), None)


def _lengths(keys: Iterable[bytes]) -> list[int]:
    return sorted({len(key) for key in keys}, reverse=True)


def _key(ids: Ids) -> bytes:
    return array("i", ids).tobytes()
