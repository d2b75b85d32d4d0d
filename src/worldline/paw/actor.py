"""The model that plays the episodes, beside the one that learns.

In float32 on one device they are the same object and nothing is copied. In half precision, or where the learner's
weights are sharded, the actor is a plain transformers model of its own, with adapters folded in, that takes over the
learner's weights after every update. Another inference engine would go here: anything that can load weights and play.
"""

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from worldline.paw.model import Learner
from worldline.paw.quantization import dequantised, empty_plain_model, is_quantised


class Actor:
    """`model` plays. Call `refresh` after every update."""

    def __init__(self, learner: Learner, dtype: torch.dtype, *, sharded: bool = False) -> None:
        """Must be made before accelerate wraps the learner."""
        self._learner = learner
        self._apart = sharded or dtype != torch.float32
        self.model = _plain_copy(learner, dtype).to(dtype) if self._apart else learner.plain

    def to(self, device: torch.device) -> "Actor":
        self.model.to(device)
        return self

    def refresh(self) -> None:
        """Take over the learner's weights. Every rank must call this: sharded weights are gathered."""
        if self._apart:
            _take_over(self.model, self._learner)

    def plain(self) -> Any:
        """A model that transformers saves, without adapters or critics."""
        return self.model if self._apart else _plain_copy(self._learner, torch.float32, only_if_adapted=True)


def _plain_copy(learner: Learner, dtype: torch.dtype, only_if_adapted: bool = False) -> Any:
    if any(is_quantised(weight) for weight in learner.plain.parameters()):
        return _take_over(empty_plain_model(learner.plain, dtype), learner)
    if learner.adapted:
        return copy.deepcopy(learner.lm).merge_and_unload().eval().requires_grad_(False)
    return learner.lm if only_if_adapted else copy.deepcopy(learner.lm).eval().requires_grad_(False)


def _take_over(model: Any, learner: Learner) -> Any:
    """Give a plain model the learner's weights."""
    with torch.no_grad():
        own_weights = dict(model.named_parameters())
        for name, weight in plain_weights(learner):
            own_weights[name].copy_(weight)
    return model


def plain_weights(learner: Learner) -> Iterator[tuple[str, Tensor]]:
    """The weights of the plain model, by the names they have there, with adapters folded in."""
    for name, weight in learner.plain.named_parameters():
        *path, layer, kind = name.split(".")
        if layer == "base_layer":
            adapted = learner.plain.get_submodule(".".join(path))
            whole = _whole(weight)
            yield (
                ".".join([*path, kind]),
                whole + _whole(adapted.get_delta_weight("default")) if kind == "weight" else whole,
            )
        elif not any(part.startswith("lora_") for part in path):
            yield name, _whole(weight)


def _whole(weight: Tensor) -> Tensor:
    """The full tensor, where only a shard or a quantised form of it lives here."""
    return weight.full_tensor() if isinstance(weight, DTensor) else dequantised(weight)
