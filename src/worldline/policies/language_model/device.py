"""The device a model runs on."""

import torch

from worldline.types import InputError


def usable_device(device: str) -> str:
    """`device`, where `auto` is the GPU if there is one; InputError if torch cannot use it."""
    chosen = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device: '{chosen}' cannot be used: {' '.join(str(error).split())[:200]}") from None
    return chosen
