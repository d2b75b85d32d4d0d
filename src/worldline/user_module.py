"""Code of the user's own, `module:attr`: importing it, and saying where in it an error was raised.

What is installed and what lies in the working directory can be imported. The name comes from the command line, a recipe
or Python, never from data.
"""

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType

from worldline.types import InputError


def import_user_module(name: str, source: str) -> ModuleType:
    """The module of that name; a console script by itself does not look in the working directory.

    ModuleNotFoundError if there is none; InputError, which begins with `source`, if it fails in any other way.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{source}: importing it failed: {error_text(error)}") from None


def module_in(file: str) -> str:
    """The name of the module in a Python file that was given for it: `boxoffice` for `boxoffice.py`; empty for others.

    Where the file lies in a folder, the name is that for somebody in that folder.
    """
    return Path(file).stem if file.endswith(".py") else ""


def module_file(name: str) -> Path | None:
    """The file that a module of the user's own is in; None where there is none."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None and os.path.isfile(spec.origin) else None


def has_attribute(module: str, attribute: str, source: str) -> bool:
    """Whether `module:attribute` is there to be imported; InputError, as above, if importing the module fails."""
    names = [*module.split("."), *attribute.split(".")]
    if not all(name.isidentifier() for name in names):
        return False
    try:
        value: object = import_user_module(module, source)
        for name in attribute.split("."):
            value = getattr(value, name)
    except ModuleNotFoundError as error:
        if f"{module}.".startswith(f"{error.name}."):
            return False
        raise InputError(f"{source}: importing it failed: {error_text(error)}") from None
    except AttributeError:
        return False
    return True


def error_text(error: BaseException) -> str:
    """`ValueError: no key (mine.py, line 8)`: an error on one line, with the place in the user's code it came from."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if isinstance(error, SyntaxError) else text + _place(error)  # a SyntaxError names its place itself


def is_of_the_machine(error: BaseException) -> bool:
    """Whether memory, a disk or a network failed, and no code: torch's error of memory is no MemoryError."""
    return isinstance(error, MemoryError | OSError) or type(error).__name__ == "OutOfMemoryError"


def fails_at_the_call(error: TypeError) -> bool:
    """Whether the function called in the `try` that caught `error` refused its arguments: it did not even begin."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _place(error: BaseException) -> str:
    """Where the user's code was when `error` was raised; empty if there is none of it on the way."""
    lines = [(Path(frame.f_code.co_filename), line) for frame, line in traceback.walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in lines if _is_users(file)]
    if not own:
        return ""
    file, line = own[-1]
    here = Path.cwd()
    return f" ({file.relative_to(here) if file.is_relative_to(here) else file}, line {line})"


def _is_users(file: Path) -> bool:
    """Whether a file is neither ours, nor Python's, nor of an installed package."""
    others = (Path(__file__).parent, sysconfig.get_path("stdlib"))
    installed = {"site-packages", "dist-packages"}.intersection(file.parts)
    return file.is_absolute() and not installed and not any(file.is_relative_to(folder) for folder in others)
