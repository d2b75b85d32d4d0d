"""worldline: train language agents that understand their world, and know how good an agent is before it touches one.

From Python: `worldline.collect`, `sft`, `train`, `fit`, `evaluate`, `compare`, `report`, `read`,
`push_to_hub`, `from_hub`; see `worldline.api`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldline.api import collect, compare, evaluate, fit, from_hub, push_to_hub, read, report, sft, train

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "collect",
    "compare",
    "evaluate",
    "fit",
    "from_hub",
    "push_to_hub",
    "read",
    "report",
    "sft",
    "train",
]

_MODULES = ("collect", "evaluate", "report", "sft")
"""Verbs that are modules too: each is callable."""
_FUNCTIONS = ("compare", "fit", "from_hub", "push_to_hub", "read", "train")


def __getattr__(name: str) -> Any:
    """`worldline.evaluate(...)` without loading anything before it is called."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"worldline.{name}")
    if name in _FUNCTIONS:
        return getattr(importlib.import_module("worldline.api"), name)
    raise AttributeError(f"module 'worldline' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_FUNCTIONS])
