"""Weights as safetensors that say what they are: what was changed on the disk is noticed when they are loaded."""

import hashlib
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model, save_model
from torch import nn

_DIGEST = "digest"


def save_weights(module: nn.Module, path: Path, **facts: str) -> None:
    """A module, and what it rests on; what the system refuses is raised as the system's error."""
    try:
        save_model(module, str(path), {"format": "pt", _DIGEST: _digest(module), **facts})
    except SafetensorError as error:
        raise OSError(f"safetensors: {error}") from None


def load_weights(module: nn.Module, path: Path) -> dict[str, str]:
    """Fill the module; the facts it was saved with. ValueError if the weights are not those that were saved."""
    with safe_open(str(path), framework="pt") as file:
        facts = dict(file.metadata() or {})
    load_model(module, str(path))
    if facts.get(_DIGEST, "") not in ("", _digest(module)):  # older files have none
        raise ValueError("its weights are not those that were written")
    return facts


def _digest(module: nn.Module) -> str:
    total = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(module.state_dict().items()):
        total.update(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}\n".encode())
        total.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()
