"""metrics.jsonl: a JSON object per step of a run, appended whole, and cut back where a resumed run takes up again."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from worldline import files
from worldline.types import InputError


def append(path: Path, row: dict[str, Any]) -> None:
    """One more line."""
    files.append_line(path, json.dumps(row))


def cut_back(path: Path, counter: str, last: int) -> tuple[str, ...]:
    """Drop the rows whose `counter` is above `last`: they will be made again. Gives notes on what was wrong."""
    return cut_back_before(path, {counter: last + 1})


def cut_back_before(path: Path, place: Mapping[str, int]) -> tuple[str, ...]:
    """Drop the rows from `place` on, given by its counters, the slowest first. Gives notes on what was wrong."""
    lines, first = files.read_lines(path), tuple(place.values())
    kept = [line for number, line in enumerate(lines.whole, start=1) if _counts(path, number, line, place) < first]
    if lines.torn or len(kept) < len(lines.whole):
        files.write(path, "".join(f"{line}\n" for line in kept))
    return (f"{path}: its last line was cut short by a crash and is left out",) if lines.torn else ()


def _counts(path: Path, number: int, line: str, counters: Iterable[str]) -> tuple[int, ...]:
    names = " and ".join(f"'{name}'" for name in counters)
    try:
        row = json.loads(line)
        return tuple(int(row[name]) for name in counters)
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: line {number} is no JSON object with {names}: delete that line") from None
