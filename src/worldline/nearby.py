"""What lies near a path that is not there, for the line that says so: mostly it is a slip of one word."""

import difflib
import os
from itertools import islice
from pathlib import Path

_SHOWN = 5
_LOOKED_AT = 1000


def nearby(path: Path | str) -> str:
    """': there is logs/' for entries with a similar name, ': runs/ holds a/, b/' where there is none; empty if the
    folder is empty."""
    missing = Path(os.path.expanduser(path))
    while missing != missing.parent and not os.path.exists(missing.parent):  # where Path.exists would raise, False
        missing = missing.parent
    folder = missing.parent
    entries = _entries(folder)
    close = [name for name in entries if _stem(name) == _stem(missing.name)]
    close = close or difflib.get_close_matches(missing.name, entries, n=2, cutoff=0.6)
    if close:
        return f": there is {' and '.join(_shown(folder, name) for name in close[:2])}"
    if not entries or folder == Path("/"):
        return ""
    names = sorted(entries)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    where = "this folder" if folder == Path() else f"{folder}/"
    return f": {where} holds {', '.join(names[:_SHOWN])}{more}"


def _entries(folder: Path) -> list[str]:
    """The names in a folder, hidden ones left out; a folder's ends with a slash."""
    try:
        with os.scandir(folder) as inside:
            seen = [entry.name + "/" * entry.is_dir() for entry in islice(inside, _LOOKED_AT)]
    except OSError:
        return []
    return [name for name in seen if not name.startswith(".")]


def _stem(name: str) -> str:
    return name.rstrip("/").partition(".")[0]


def _shown(folder: Path, name: str) -> str:
    return name if folder == Path() else f"{folder}/{name}"
