"""worldline: train language agents that understand their world, and know how good an agent is before it touches one."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """`worldline.evaluate(...)` without loading anything before it is called."""
    if name == "evaluate":
        import importlib

        return importlib.import_module("worldline.evaluate")
    raise AttributeError(f"module 'worldline' has no attribute '{name}'")
