"""Where a network runs when nobody says so."""

import torch


def chosen_device(device: str) -> str:
    """`device` itself; for "auto" a GPU where there is one, else the CPU."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
