"""Token after token of a batch with every tensor in its place: read the last token, draw the next, note it down.

The new tokens of all rows stand side by side behind the longest prompt; a mask hides what no row has there. A step is
read and draw in one, so steps follow one another on the device and nothing waits for the host.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from worldline.policies.language_model.decoding import Response
from worldline.policies.language_model.forward import Model, bare
from worldline.policies.language_model.recording import Arriving, Recorder, sent
from worldline.policies.language_model.sampling import sample
from worldline.policies.language_model.stack import Stack

BLOCK = 32
"""Places whose draws and tokens are held on the device at a time."""
LOOK_EVERY = 3
"""Steps between two looks at what was drawn: while one look is taken in, the device has that many to do."""


def stepping_rows(rows: int) -> int:
    """8, multiples of 16 to 64, then of 32: memory for missing rows is memory too, though a step takes no longer."""
    if rows <= 8:
        return 8
    multiple = 16 if rows <= 64 else 32
    return -(-rows // multiple) * multiple


def stepping_time(length: int) -> int:
    """A multiple of 64 up to 512, then of 128 up to 1,024, and so on.

    A transcript grows at every tick of a rollout: few lengths mean that the next rollout replays what this one
    recorded. A step reads at most 63 places or a quarter more than it needs.
    """
    multiple = max(64, (1 << (length - 1).bit_length()) // 8)
    return -(-length // multiple) * multiple


@dataclass(frozen=True)
class Look:
    """What the steps of a block have drawn so far."""

    ended: npt.NDArray[np.bool_]  # (rows,)
    lengths: npt.NDArray[np.int64]  # (rows,)
    ids: npt.NDArray[np.int64]  # (BLOCK, rows)
    logprobs: npt.NDArray[np.float32]  # (BLOCK, rows)
    entropies: npt.NDArray[np.float32]  # (BLOCK, rows)

    def add(self, row: int, response: Response) -> None:
        """Put the row's tokens of this block at the end of `response`."""
        length = self.lengths[row]
        response.ids += self.ids[:length, row].tolist()
        response.logprobs += self.logprobs[:length, row].tolist()
        response.entropies += self.entropies[:length, row].tolist()


class TokenStepper:
    """Steps of one batch shape at one temperature; `cache` is (layers, 2, rows, heads, time, size)."""

    def __init__(
        self, model: Model, stack: Stack, cache: Tensor, stops: Tensor, temperature: float, recorder: Recorder
    ) -> None:
        self.cache, self._stack = cache, stack
        rows, time, device = cache.shape[2], cache.shape[4], cache.device
        self._head, self._stops, self._temperature = bare(model).get_output_embeddings(), stops, temperature
        self._at, self._place = (torch.zeros(1, dtype=torch.long, device=device) for _ in range(2))
        self._hidden = torch.zeros(rows, 1, 1, time, dtype=cache.dtype, device=device)
        self._position, self._last = (torch.zeros(rows, dtype=torch.long, device=device) for _ in range(2))
        self.logits = torch.zeros(rows, len(stops), device=device)
        """What follows each prompt; the first token is drawn from it."""
        self.draws = torch.zeros(BLOCK, rows, dtype=torch.float64, device=device)
        self.tokens = torch.zeros(BLOCK, rows, dtype=torch.long, device=device)
        self.logprobs, self.entropies = (torch.zeros(BLOCK, rows, device=device) for _ in range(2))
        self.lengths = torch.zeros(rows, dtype=torch.long, device=device)
        """How many tokens of this block belong to each row's response."""
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self._recording = recorder.recording()

    def begin(self, lengths: Tensor, seen: Tensor) -> None:
        """Start behind prompts of these lengths, (prompts,), whose tokens stand where `seen`, (prompts, time), says."""
        rows, used = seen.shape
        self._hidden.fill_(-torch.inf)
        self._hidden[:rows, 0, 0, :used].masked_fill_(seen, 0.0)
        self._position.zero_()
        self._position[:rows] = lengths
        self._at.fill_(used)
        self.ended.fill_(True)
        self.ended[:rows] = False

    def go_on(self, other: "TokenStepper", rows: Tensor) -> None:
        """Take over some rows of another shape's batch in the same memory, where it has come."""
        kept = other.cache.index_select(2, rows)  # a copy: both caches lie in the same memory
        self.cache[:, :, : len(rows)] = kept
        self._hidden.fill_(-torch.inf)
        self._hidden[: len(rows)] = other._hidden[rows]
        self.ended.fill_(True)
        for own, its in ((self._position, other._position), (self._last, other._last), (self.ended, other.ended)):
            own[: len(rows)] = its[rows]
        self._at.copy_(other._at)

    def load(self, draws: npt.NDArray[np.float64]) -> None:
        """The draws of the next places, (at most BLOCK, prompts)."""
        self.draws[: draws.shape[0], : draws.shape[1]] = sent(draws, self.draws.device)
        self._place.zero_()
        self.lengths.zero_()

    def first(self) -> None:
        """Draw the first token of each response."""
        self._draw(self.logits)

    def step(self) -> None:
        """Read the last token of each row and draw the next."""
        self._recording(self._step)

    def steps(self, first: int, count: int) -> Iterator[Look]:
        """Steps through the block of places from `first` on, and looks now and then.

        A look is given when the steps up to the next are on their way: what is done with it costs the device no time.
        """
        before = None
        for place in range(first, first + count):
            if place:
                self.step()
            else:
                self.first()
            if (place + 1) % LOOK_EVERY == 0 or place + 1 == first + count:
                now = Arriving(self.ended, self.lengths, self.tokens, self.logprobs, self.entropies)
                if before:
                    yield Look(*before.arrays())
                before = now
        if before:
            yield Look(*before.arrays())

    def _step(self) -> None:
        self._hidden.index_fill_(-1, self._at, 0.0)
        states = self._stack.step(self._last, self._position, self.cache, self._at, self._hidden)
        self._at += 1
        self._position += 1
        self._draw(self._head(states).float())

    def _draw(self, logits: Tensor) -> None:
        drawn = sample(logits, self.draws.index_select(0, self._place)[0], self._temperature)
        self.tokens.index_copy_(0, self._place, drawn.tokens[None])
        self.logprobs.index_copy_(0, self._place, drawn.logprobs[None].to(self.logprobs.dtype))
        self.entropies.index_copy_(0, self._place, drawn.entropies[None].to(self.entropies.dtype))
        self._last.copy_(drawn.tokens)
        self.lengths += ~self.ended
        self.ended |= self._stops[drawn.tokens]
        self._place += 1
