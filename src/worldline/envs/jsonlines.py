"""JSON Lines files, plain or gzipped, with a clear word on what cannot be read."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worldline import files
from worldline.nearby import nearby
from worldline.types import InputError

SUFFIXES = (".jsonl", ".jsonl.gz", ".json.gz")


def files_of(path: Path) -> list[Path]:
    """The file itself, or the JSON Lines files of a folder by name."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder{nearby(path)}")
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES))
    if not files:
        raise InputError(f"{path}: holds no {' or '.join(SUFFIXES[:2])} file")
    return files


def rows_of(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every row with its place ("file:line") for error messages."""
    opener = gzip.open if file.name.endswith(".gz") else open
    try:
        with opener(file, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield f"{file}:{number}", _row(file, number, line)
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: {files.not_utf8(error, whole=False)}") from None
    except (OSError, EOFError) as error:
        raise InputError(f"{file}: cannot be read as JSON Lines: {error}") from None


def stem(file: Path) -> str:
    """The file's name without its suffixes."""
    return file.name.partition(".")[0]


def _row(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{file}:{number}: not JSON: {error.msg} at column {error.colno}") from None
    if not isinstance(row, dict):
        raise InputError(f"{file}:{number}: a row is a JSON object, this is {type(row).__name__}")
    return row
