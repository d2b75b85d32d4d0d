"""Modules that are functions too: `worldline.collect(...)`.

Python binds a module's name in its package as soon as it is imported, so `worldline.collect` is the module whoever
imported it first; it is made callable, and calls the function of that name in `worldline.api`.
"""

import importlib
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module whose call is the verb of its name."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        api = importlib.import_module("worldline.api")
        return getattr(api, self.__name__.rpartition(".")[2])(*arguments, **settings)
