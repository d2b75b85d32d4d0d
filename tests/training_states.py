"""Training states as plain values, to be compared: torch writes equal ones differently after they were loaded."""

from pathlib import Path
from typing import Any

import torch

from worldline import training_state


def values(path: Path) -> Any:
    return _plain(training_state.load(path))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value
