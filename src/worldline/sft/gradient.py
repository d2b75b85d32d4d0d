"""The gradient of a batch of examples. On a GPU it is recorded for a few shapes and replayed.

A pass of 2,048 tokens through a small model is thousands of tiny kernels, which Python launches more slowly than a GPU
runs them. So on a GPU batches are padded to a few shapes; padding has no weight, and the gradient is the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from worldline.policies.language_model.recording import Recorder, sent

Integers = npt.NDArray[np.int64]
STEP = 64
"""On a GPU lengths are rounded up to a multiple of this."""
MOST_KEPT = 32
"""Shapes that stay recorded."""


@dataclass(frozen=True)
class Example:
    """A token sequence and which of its tokens are to be learned."""

    tokens: tuple[int, ...]
    learned: tuple[bool, ...]


@dataclass(frozen=True)
class PackedExamples:
    """Right-padded tokens; the tokens that have a loss, by their place in the flattened array; the weight of each."""

    tokens: Integers  # (examples, length)
    at: Integers  # (targets,)
    weights: npt.NDArray[np.float32]  # (targets,)


def pack(batch: Sequence[Example], pad: int, reading: float = 0.0) -> PackedExamples:
    """The batch as arrays: learned tokens weigh one in all, the others `reading` in all.

    The first token of an example has nothing before it that could predict it.
    """
    width = max(len(example.tokens) for example in batch)
    tokens = np.full((len(batch), width), pad, dtype=np.int64)
    learned, real = np.zeros((2, len(batch), width), dtype=np.bool_)
    for row, example in enumerate(batch):
        tokens[row, : len(example.tokens)] = example.tokens
        learned[row, : len(example.tokens)] = example.learned
        real[row, 1 : len(example.tokens)] = True
    parts = [(np.flatnonzero(real & learned), 1.0)] + ([(np.flatnonzero(real & ~learned), reading)] if reading else [])
    shares = [np.full(len(at), weight / max(1, len(at)), dtype=np.float32) for at, weight in parts]
    return PackedExamples(tokens, np.concatenate([at for at, _ in parts]), np.concatenate(shares))


def enlarged(packed: PackedExamples, shape: tuple[int, int, int]) -> PackedExamples:
    """The same in `shape`: rows, length, targets. What is added has no weight."""
    rows, length, targets = shape
    tokens = np.zeros((rows, length), dtype=np.int64)
    tokens[: packed.tokens.shape[0], : packed.tokens.shape[1]] = packed.tokens
    row, column = np.divmod(packed.at, packed.tokens.shape[1])
    more = targets - len(packed.at)
    return PackedExamples(
        tokens, np.pad(row * length + column, (0, more), constant_values=1), np.pad(packed.weights, (0, more))
    )


def weighted_loss(model: Any, tokens: Tensor, at: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy of the tokens `at`, times their weights, summed. Logits are computed only there."""
    # Right padding under a causal mask cannot reach a real token, so no attention mask is needed.
    states = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state.flatten(0, 1)
    logits = model.get_output_embeddings()(states[at - 1]).float()
    return F.cross_entropy(logits, tokens.flatten()[at], reduction="none") @ weights


class BatchGradient:
    """Puts the gradient of a batch of at most `budget` padded tokens into the weights; gives its loss."""

    def __init__(self, model: Any, pad: int, budget: int, reading: float = 0.0, half: bool = False) -> None:
        self._model, self._pad, self._budget, self._reading = model, pad, budget, reading
        self._half, self._shapes = half, dict[tuple[int, int, int], _Shape]()
        self._recorder = Recorder(model.device) if model.device.type == "cuda" else None
        self._trained = [weight for weight in model.parameters() if weight.requires_grad]
        self._gradients: list[Tensor] = []
        """What recordings write to: they hold the addresses, so these tensors stay, whatever a weight is given."""

    def __call__(self, batch: Sequence[Example]) -> Tensor:
        packed = pack(batch, self._pad, self._reading)
        if self._recorder is None:
            self._model.zero_grad(set_to_none=True)
            return self._backward(*map(torch.from_numpy, (packed.tokens, packed.at, packed.weights)))
        self._gradients = self._gradients or [torch.zeros_like(weight) for weight in self._trained]
        for weight, gradient in zip(self._trained, self._gradients, strict=True):
            weight.grad = gradient
        shape = self.shape(packed)
        if shape not in self._shapes:
            while len(self._shapes) >= MOST_KEPT:
                del self._shapes[next(iter(self._shapes))]
            self._shapes[shape] = _Shape(shape, self._recorder, self._gradients)
        return self._shapes[shape].gradient(enlarged(packed, shape), self._backward)

    def shape(self, packed: PackedExamples) -> tuple[int, int, int]:
        """One of a few shapes that hold the batch."""
        rows, width = packed.tokens.shape
        longest = getattr(self._model.config.get_text_config(), "max_position_embeddings", None) or width + STEP
        length = max(width, min(-(-width // STEP) * STEP, longest))
        rows = max(rows, self._budget // (length - STEP + 1))
        targets = max(STEP, 1 << (len(packed.at) - 1).bit_length())
        return rows, length, max(len(packed.at), min(targets, rows * length))

    def _backward(self, tokens: Tensor, at: Tensor, weights: Tensor) -> Tensor:
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self._half):
            loss = weighted_loss(self._model, tokens, at, weights)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        return loss.detach()


class _Shape:
    """Tensors of one shape that stay in place, and the pass over them. The gradients stay in place too."""

    def __init__(self, shape: tuple[int, int, int], recorder: Recorder, gradients: list[Tensor]) -> None:
        rows, length, targets = shape
        device = gradients[0].device
        self._tokens = torch.zeros(rows, length, dtype=torch.long, device=device)
        self._at = torch.ones(targets, dtype=torch.long, device=device)
        self._weights, self._loss = torch.zeros(targets, device=device), torch.zeros((), device=device)
        self._gradients, self._recording = gradients, recorder.recording()

    def gradient(self, packed: PackedExamples, backward: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        for own, new in ((self._tokens, packed.tokens), (self._at, packed.at), (self._weights, packed.weights)):
            own.copy_(sent(new, own.device))

        def work() -> None:
            torch._foreach_zero_(self._gradients)
            self._loss.copy_(backward(self._tokens, self._at, self._weights))

        self._recording(work)
        return self._loss
