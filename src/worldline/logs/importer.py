"""The formats that can be imported, and the one loop that does it.

A row that is no episode is never dropped silently: it raises, or goes to `on_bad`. Episode ids follow from the
file's name, the policy, the task and the trial, so the same file gives the same ids whenever it is imported.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from worldline.config import suggest
from worldline.logs import chat, episodes, inspect, jsonl
from worldline.logs.rows import BadRow, DecodedRow, json_rows
from worldline.logs.source import ImportSource, Options, reason
from worldline.types import InputError, Trajectory

_LONGEST_REASON = 300


@dataclass(frozen=True)
class Format:
    """How a file is cut into rows, and a row made an episode (ValueError: it is none)."""

    rows: Callable[[Path], Iterator[DecodedRow | BadRow]]
    convert: Callable[[Any, ImportSource], Trajectory]
    names_episodes: bool = False
    """The rows carry their own ids, which are kept as they are."""


FORMATS = {
    "episodes": Format(json_rows, episodes.convert),
    "chat": Format(json_rows, chat.convert),
    "inspect": Format(inspect.samples, inspect.convert),
    "jsonl": Format(json_rows, jsonl.convert, names_episodes=True),
}


def read(
    format: str,  # noqa: A002 - the word the command line uses
    path: Path | str,
    *,
    options: Options | None = None,
    on_bad: Callable[[BadRow], None] | None = None,
) -> Iterator[Trajectory]:
    """The episodes of a file. Bad rows are given to `on_bad` and left out; without it the first one raises."""
    if format not in FORMATS:
        raise InputError(f"unknown format '{format}'{suggest(format, list(FORMATS))}")
    source = ImportSource(Path(path), options or Options())
    if not source.path.is_file():
        raise InputError(f"{path}: {'a folder: give one file' if source.path.is_dir() else 'no such file'}")
    return _read(FORMATS[format], source, on_bad)


def bad_rows(format: str, path: Path | str, *, options: Options | None = None) -> list[BadRow]:  # noqa: A002 - as the flag
    """Everything in a file that is no episode: check this before the first row is written."""
    bad: list[BadRow] = []
    for _ in read(format, path, options=options, on_bad=bad.append):
        pass
    return bad


def _read(kind: Format, source: ImportSource, on_bad: Callable[[BadRow], None] | None) -> Iterator[Trajectory]:
    places: dict[str, str] = {}
    repeats: Counter[str] = Counter()
    empty = True
    for row in kind.rows(source.path):
        empty = False
        result = row if isinstance(row, BadRow) else _convert(kind, row, source)
        if isinstance(result, Trajectory):
            result = _with_own_id(result, row.where, kind, places, repeats)
        if isinstance(result, Trajectory):
            yield result
        elif on_bad is None:
            raise InputError(f"{source.path}: {result}")
        else:
            on_bad(result)
    if empty:
        raise InputError(f"{source.path}: holds no episode")


def _with_own_id(
    episode: Trajectory, where: str, kind: Format, places: dict[str, str], repeats: Counter[str]
) -> Trajectory | BadRow:
    """The episode under an id that no earlier row has (`places`): numbered, or a bad row where ids are kept."""
    name = _stored(episode.id)
    if name in places and kind.names_episodes:
        return BadRow(where, f"episode id '{name}' is on {places[name]} already")
    base = name
    while name in places:
        repeats[base] += 1
        name = f"{base}#{repeats[base] + 1}"
    places[name] = where
    return episode if name == base else episode.model_copy(update={"id": name})


def _stored(text: str) -> str:
    """`text` as the store keeps it: lone surrogates become U+FFFD, and two ids may become one by that."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _convert(kind: Format, row: DecodedRow, source: ImportSource) -> Trajectory | BadRow:
    try:
        return kind.convert(row.value, source)
    except ValidationError as error:
        return BadRow(row.where, reason(error))
    except RecursionError:
        return BadRow(row.where, "nested too deeply")
    except OverflowError:
        return BadRow(row.where, "a number that is too large")
    except ValueError as error:
        return BadRow(row.where, str(error)[:_LONGEST_REASON])
