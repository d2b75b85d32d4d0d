"""The formats that can be imported, and the one loop that does it.

A row that is no episode is never dropped silently: it raises, or goes to `on_bad`. Episode ids are the rows' own where
these are unique, else follow from the file's name, the policy, the task and the trial: the same file gives the same ids
whenever it is imported.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from worldline.config import suggest
from worldline.logs import atif, chat, episodes, inspect, jsonl, mapping, openenv, table, tau2, verifiers
from worldline.logs.columns import any_rows
from worldline.logs.detection import detect
from worldline.logs.rows import BadRow, DecodedRow
from worldline.logs.source import ImportSource, Options, Unnamed, reason
from worldline.nearby import nearby
from worldline.types import LARGEST_REWARD, InputError, Trajectory

_LONGEST_REASON = 300
_MOST_LOGPROB = 1e-6
"""Rounding may put a log-probability of 0 that far above it; `evaluate` takes as much."""


@dataclass(frozen=True)
class Format:
    """How a file is cut into rows, and a row made an episode (ValueError: it is none)."""

    rows: Callable[[Path], Iterator[DecodedRow | BadRow]]
    convert: Callable[[Any, ImportSource], Trajectory]
    names_episodes: bool = False
    """The rows carry their own ids, which are kept as they are."""
    group: Callable[[Iterable[DecodedRow | BadRow]], Iterator[DecodedRow | BadRow]] | None = None
    """Puts rows together that are one episode, after `--map` has named their fields."""


FORMATS = {
    "episodes": Format(any_rows, episodes.convert),
    "chat": Format(any_rows, chat.convert),
    "tau2": Format(tau2.rows, tau2.convert),
    "inspect": Format(inspect.samples, inspect.convert),
    "atif": Format(atif.rows, atif.convert),
    "verifiers": Format(verifiers.rows, verifiers.convert),
    "openenv": Format(openenv.rows, openenv.convert),
    "table": Format(any_rows, table.convert, group=table.group),
    "jsonl": Format(any_rows, jsonl.convert, names_episodes=True),
}
AUTO = "auto"
MAPPED = "map"
_MAPPING = Format(any_rows, mapping.convert)
_IN_FOLDERS = ("trajectory.json", "traces.jsonl", "results.jsonl", "results.json")
"""Files that tools write under these very names into a folder per run or trial."""
_DEPTH = 4


def expand(path: Path) -> list[Path]:
    """The files that a path means: itself, or those of a run's, trial's or job's folder."""
    if not path.is_dir():
        return [path]
    inside = sorted(
        file
        for name in _IN_FOLDERS
        for depth in range(_DEPTH)
        for file in path.glob("*/" * depth + name)
        if file.is_file()
    )
    if not inside:
        raise InputError(f"{path}: a folder without {', '.join(_IN_FOLDERS)} in it: give the files")
    return inside


def format_of(path: Path | str, options: Options | None = None) -> str:
    """The name of the format a file is read as: what the options say, else what is in it."""
    given = options or Options()
    mappings = mapping.parse(given.map)
    return MAPPED if mapping.is_format(mappings) else detect(Path(path), mappings)


def read(
    format: str,  # noqa: A002 - the word the command line uses
    path: Path | str,
    *,
    options: Options | None = None,
    on_bad: Callable[[BadRow], None] | None = None,
    unnamed: Unnamed | None = None,
) -> Iterator[Trajectory]:
    """The episodes of a file. Bad rows are given to `on_bad` and left out; without it the first one raises.

    `unnamed` counts the episodes that name no policy or no task, by the name they got instead.
    """
    if format not in (*FORMATS, AUTO, MAPPED):
        raise InputError(f"unknown format '{format}'{suggest(format, [AUTO, *FORMATS])}")
    given = options or Options()
    source = ImportSource(Path(path), given, mapping.parse(given.map), unnamed or Unnamed())
    if not source.path.is_file():
        raise InputError(
            f"{path}: {'a folder: give one file' if source.path.is_dir() else 'no such file' + nearby(path)}"
        )
    name = format_of(path, given) if format == AUTO or mapping.is_format(source.mappings) else format
    return _read(_MAPPING if name == MAPPED else FORMATS[name], source, on_bad)


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
    rows = mapping.checked(kind.rows(source.path), source)
    for row in rows if kind.group is None else kind.group(_mapped(rows, source)):
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
        value = row.value if kind is _MAPPING or kind.group else _overridden(row.value, source)
        return _possible(kind.convert(value, source))
    except ValidationError as error:
        return BadRow(row.where, reason(error))
    except RecursionError:
        return BadRow(row.where, "nested too deeply")
    except OverflowError:
        return BadRow(row.where, "a number that is too large")
    except ValueError as error:
        return BadRow(row.where, str(error)[:_LONGEST_REASON])


def _possible(episode: Trajectory) -> Trajectory:
    """The episode as it is; ValueError if it says what cannot be."""
    for number, step in enumerate(episode.steps):
        if step.logprob is not None and step.logprob > _MOST_LOGPROB:
            raise ValueError(f"steps.{number}.logprob: is {step.logprob:.3g}: a log-probability is at most 0")
        if math.isfinite(step.reward) and abs(step.reward) > LARGEST_REWARD:
            fault = f"too large (at most {LARGEST_REWARD:g}): give rewards in another unit"
            raise ValueError(f"steps.{number}.reward: is {step.reward:.3g}, {fault}")
    return episode


def _mapped(rows: Iterable[DecodedRow | BadRow], source: ImportSource) -> Iterator[DecodedRow | BadRow]:
    """The rows with what `--map` says of the episode put in."""
    for row in rows:
        try:
            if isinstance(row, DecodedRow) and isinstance(row.value, dict):
                yield DecodedRow(row.where, _overridden(row.value, source))
            else:
                yield row
        except ValueError as error:
            yield BadRow(row.where, str(error)[:_LONGEST_REASON])


def _overridden(value: Any, source: ImportSource) -> Any:
    """The row with what `--map` says of the episode put in; some formats hand on a header."""
    if not source.mappings:
        return value
    if isinstance(value, tuple):
        header, row = value
        return header, mapping.override(row, source.mappings)
    return mapping.override(value, source.mappings)
