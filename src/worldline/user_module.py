"""Importing code of the user's own, `module:attr`: what is installed, and what lies in the working directory.

The name comes from the command line, a recipe or Python, never from data.
"""

import importlib
import os
import sys
from types import ModuleType


def import_user_module(name: str) -> ModuleType:
    """The module of that name; a console script by itself does not look in the working directory."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)
