"""Whole prompts read in one pass of a fixed shape, keys and values written to memory that stays.

Prompts are padded on the right. Under the causal mask no real token sees the padding, so there is no mask to build and
torch's fastest kernel serves. The keys of the padding are written too: whoever reads on must hide them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from worldline.policies.language_model.forward import Model, bare
from worldline.policies.language_model.recording import Recorder, sent
from worldline.policies.language_model.stack import Stack

Ids = Sequence[int]
STEP = 64
"""Lengths are rounded up to a multiple of this."""
READ_TOKENS = 16384
"""Padded tokens of prompts in one pass: enough to fill a GPU."""


def length_bucket(length: int) -> int:
    return -(-length // STEP) * STEP


def reading_rows(rows: int) -> int:
    """1, 2, 4, then multiples of 8: here a row of padding costs as much as a real one."""
    return next((size for size in (1, 2, 4) if rows <= size), -(-rows // 8) * 8)


@dataclass(frozen=True)
class Part:
    """Different prompts that are read together, by their place among all of them; the longest comes first."""

    members: list[int]
    rows: int
    length: int


def parts(lengths: Sequence[int], budget: int = READ_TOKENS) -> list[Part]:
    """Prompts of similar length in passes of at most `budget` padded tokens, of whole buckets where more follows."""
    order = sorted(range(len(lengths)), key=lambda at: -lengths[at])
    made = []
    while order:
        length = length_bucket(lengths[order[0]])
        most = max(1, budget // length)
        whole = next(size for size in (most - most % 8, 4, 2, 1) if 0 < size <= most)
        count = len(order) if reading_rows(len(order)) <= most else min(whole, len(order))
        made.append(Part(order[:count], reading_rows(count), length))
        order = order[count:]
    return made


class PromptReader:
    """Reads up to `rows` prompts of up to `length` tokens into `cache`, (layers, 2, rows, heads, length, size)."""

    def __init__(self, model: Model, stack: Stack, cache: Tensor, recorder: Recorder) -> None:
        self.cache, self._stack = cache, stack
        rows, length = cache.shape[2], cache.shape[4]
        plain, device = bare(model), cache.device
        self._head = plain.get_output_embeddings()
        self._ids = torch.zeros(rows, length, dtype=torch.long, device=device)
        context = getattr(plain.config.get_text_config(), "max_position_embeddings", None)
        self._positions = torch.arange(length, device=device).clamp(max=context and context - 1)[None]
        self._rows = torch.arange(rows, device=device)
        self._last = torch.zeros(rows, dtype=torch.long, device=device)
        self.logits = torch.zeros(rows, self._head.weight.shape[0], device=device)
        """What follows each prompt, (rows, vocabulary)."""
        self._recording = recorder.recording()

    def read(self, prompts: Sequence[Ids]) -> None:
        """Read `prompts`; the rows behind them hold nothing of use."""
        ids = np.zeros(self._ids.shape, dtype=np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, : len(prompt)] = prompt
        ends = np.array([len(prompt) - 1 for prompt in prompts])
        self._ids.copy_(sent(ids, self._ids.device))
        self._last[: len(prompts)] = sent(ends, self._ids.device)
        self.read_again()

    def read_again(self) -> None:
        """Read what was given last."""
        self._recording(self._read)

    def _read(self) -> None:
        states = self._stack.read(self._ids, self._positions, self.cache)
        self.logits.copy_(self._head(states[self._rows, self._last]))
