"""worldline: train language agents that understand their world, and know how good an agent is before it touches one."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`worldline.evaluate(...)` without loading anything before it is called."""
    import importlib

    if name == "evaluate":
        return importlib.import_module("worldline.evaluate")
    if name in ("compare", "read"):
        return getattr(importlib.import_module("worldline.api"), name)
    raise AttributeError(f"module 'worldline' has no attribute '{name}'")
