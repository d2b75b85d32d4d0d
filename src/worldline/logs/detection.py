"""Which format a file has, by what is in it."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worldline.logs import atif, mapping, openenv, table, tau2, verifiers
from worldline.logs.columns import any_rows
from worldline.logs.rows import DecodedRow, beginning
from worldline.nearby import nearby
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


_STEPWISE = ("observation", "obs", "next_observation", "next_obs")
"""Columns that only steps have; a column `state` or `result` may also describe a whole episode."""
_MENDABLE = ("episodes", "table")
"""Formats whose fields stand in the row itself, where `--map` can put one that goes by another name."""


def detect(path: Path, mappings: mapping.Mappings | None = None) -> str:
    """The format of a file, read with what `--map` says; InputError says what it looks like where it is none we know.

    A row that holds steps is never read as an outcome alone: that would drop them.
    """
    if not path.is_file():
        raise InputError(
            f"{path}: {'a folder that holds no log we know' if path.is_dir() else 'no such file' + nearby(path)}"
        )
    if beginning(path).startswith(b"PK"):
        return "inspect"
    row = _first(path)
    if isinstance(row, dict) and isinstance(row.get("meta"), list) and "schema_version" in row:
        raise InputError(f"{path}: is a worldline log as it is: give it, or its folder, to any verb that takes a log")
    mended = _mended(row, mappings or {})
    for name, sign in SIGNS.items():
        if name == "table" and isinstance(mended, dict) and (slip := _dropped_steps(mended)):
            raise InputError(f"{path}: {slip}")
        if sign(mended if name in _MENDABLE else row):
            return name
    shape = "its rows are no JSON objects"
    if isinstance(row, dict):
        names = [str(name) for name in row]
        more = ", ..." if len(names) > _MOST_FIELDS else ""
        shape = f"its rows have the fields {', '.join(names[:_MOST_FIELDS])}{more}"
    paths = " ".join(f"{field}=PATH" for field in ("action", "observation", "reward", "task_id"))
    how = f"--map {paths} says where things are, --format NAME what it is"
    raise InputError(f"{path}: no format we know: {shape}: {how}")


def _mended(row: Any, mappings: mapping.Mappings) -> Any:
    try:
        return mapping.override(row, mappings) if isinstance(row, dict) else row
    except ValueError:
        return row  # this row lacks a mapped field: it is listed as a bad one later


def _dropped_steps(row: dict[str, Any]) -> str:
    """What a row without a usable action says about steps that a table would not read, and how to read them."""
    if "action" in table.renamed(row):
        return ""
    if field := table.step_list(row):
        slips = [] if field == "steps" else [f"steps={field}"]
        if "task_id" not in row:
            slips.append(f"task_id={_nearest('task_id', row, 'FIELD')}")
        lacks = " and ".join(f"no '{slip.partition('=')[0]}'" for slip in slips)
        if field == "steps" or table.has_actions(row[field]):
            return f"its rows have '{field}' but {lacks}: {' '.join(f'--map {slip}' for slip in slips)}"
        if not table.is_table(row):
            return ""
        keys = ", ".join(dict.fromkeys(str(key) for item in row[field][:1] for key in item))
        return (
            f"its rows have '{field}', a list of objects with {keys}: --map action={field}[].FIELD reads them as "
            "steps, --format table keeps them in meta only"
        )
    if table.is_table(row) and (signs := [name for name in row if name in _STEPWISE]):
        field = _nearest("action", row, "FIELD")
        return f"its rows have '{signs[0]}' but no 'action': --map action={field}, --format table if none was logged"
    return ""


def _nearest(name: str, row: dict[str, Any], default: str) -> str:
    """The row's field that is most probably meant by `name`; what a table calls a task is the goal of an episode."""
    fields = [str(field) for field in row if field != "task"]
    return next(iter(difflib.get_close_matches(name, fields, n=1, cutoff=0.6)), default)


def _first(path: Path) -> Any:
    """The first row that can be read, or the document that a file is."""
    bad = None
    for row in any_rows(path):
        if isinstance(row, DecodedRow):
            return row.value
        bad = bad or row
    raise InputError(f"{path}: {bad or 'holds no episode'}")
