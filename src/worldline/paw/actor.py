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


class Actor:
    """`model` plays. Call `refresh` after every update."""

    def __init__(self, learner: Learner, dtype: torch.dtype, *, sharded: bool = False) -> None:
        """Must be made before accelerate wraps the learner."""
        self._learner = learner
        self._apart = sharded or dtype != torch.float32
        self.model = _plain_copy(learner).to(dtype) if self._apart else learner.plain

    def to(self, device: torch.device) -> "Actor":
        self.model.to(device)
        return self

    def refresh(self) -> None:
        """Take over the learner's weights. Every rank must call this: sharded weights are gathered."""
        if self._apart:
            with torch.no_grad():
                own_weights = dict(self.model.named_parameters())
                for name, weight in _weights(self._learner):
                    own_weights[name].copy_(weight)

    def plain(self) -> Any:
        """A model that transformers saves, without adapters or critics."""
        return self.model if self._apart else _plain_copy(self._learner, only_if_adapted=True)


def _plain_copy(learner: Learner, only_if_adapted: bool = False) -> Any:
    if learner.adapted:
        return copy.deepcopy(learner.lm).merge_and_unload().eval().requires_grad_(False)
    return learner.lm if only_if_adapted else copy.deepcopy(learner.lm).eval().requires_grad_(False)


def _weights(learner: Learner) -> Iterator[tuple[str, Tensor]]:
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
    """The full tensor, where only a shard of it lives here."""
    return weight.full_tensor() if isinstance(weight, DTensor) else weight
