"""Which format a file has, by what is in it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from worldline.logs import atif, openenv, table, tau2, verifiers
from worldline.logs.columns import any_rows
from worldline.logs.rows import DecodedRow, beginning
from worldline.types import SCHEMA_VERSION, InputError

_MOST_FIELDS = 12


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda row: isinstance(row, dict) and all(name in row for name in names)


SIGNS: dict[str, Callable[[Any], bool]] = {
    "inspect": lambda row: _has("eval")(row) and isinstance(row["eval"], dict) and "task" in row["eval"],
    "tau2": tau2.is_document,
    "atif": atif.is_trajectory,
    "jsonl": lambda row: _has("schema_version", "steps", "task_id")(row) and row["schema_version"] == SCHEMA_VERSION,
    "verifiers": verifiers.is_rollout,
    "openenv": openenv.is_episode,
    "chat": lambda row: _has("messages")(row) or _has("traj")(row),
    "episodes": _has("steps", "task_id"),
    "table": table.is_table,
}
"""What the first row, or the whole document, looks like; the first format whose sign is there."""


def detect(path: Path) -> str:
    """The format of a file; InputError says what it looks like where it is none we know."""
    if not path.is_file():
        raise InputError(f"{path}: {'a folder that holds no log we know' if path.is_dir() else 'no such file'}")
    if beginning(path).startswith(b"PK"):
        return "inspect"
    row = _first(path)
    if isinstance(row, dict) and isinstance(row.get("meta"), list) and "schema_version" in row:
        raise InputError(f"{path}: is a worldline log as it is: give it, or its folder, to any verb that takes a log")
    for name, sign in SIGNS.items():
        if sign(row):
            return name
    shape = "its rows are no JSON objects"
    if isinstance(row, dict):
        names = [str(name) for name in row]
        more = ", ..." if len(names) > _MOST_FIELDS else ""
        shape = f"its rows have the fields {', '.join(names[:_MOST_FIELDS])}{more}"
    how = "--map action=PATH --map observation=PATH --map reward=PATH says where things are, --format NAME what it is"
    raise InputError(f"{path}: no format we know: {shape}: {how}")


def _first(path: Path) -> Any:
    """The first row that can be read, or the document that a file is."""
    bad = None
    for row in any_rows(path):
        if isinstance(row, DecodedRow):
            return row.value
        bad = bad or row
    raise InputError(f"{path}: {bad or 'holds no episode'}")
