"""metrics.jsonl: a JSON object per step of a run, appended whole, and cut back where a resumed run takes up again."""

import json
from pathlib import Path
from typing import Any

from worldline import files
from worldline.types import InputError


def append(path: Path, row: dict[str, Any]) -> None:
    """One more line."""
    files.append_line(path, json.dumps(row))


def cut_back(path: Path, counter: str, last: int) -> tuple[str, ...]:
    """Keep the rows whose `counter` is at most `last`; they will be made again. Gives notes on what was wrong."""
    lines = files.read_lines(path)
    kept = [line for number, line in enumerate(lines.whole, start=1) if _count(path, number, line, counter) <= last]
    if lines.torn or len(kept) < len(lines.whole):
        files.write(path, "".join(f"{line}\n" for line in kept))
    return (f"{path}: its last line was cut short by a crash and is left out",) if lines.torn else ()


def _count(path: Path, number: int, line: str, counter: str) -> int:
    try:
        return int(json.loads(line)[counter])
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path}: line {number} is no JSON object with a '{counter}': delete that line") from None
