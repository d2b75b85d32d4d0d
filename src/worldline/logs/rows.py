"""The rows of a log file: lines or list items, plain, gzip or xz, with every problem tied to its place.

A row that cannot be decoded is handed on with the reason instead of ending the file: the importer decides.
"""

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from worldline.types import InputError

_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}
"""By the first bytes of the file, whatever it is called."""
_CUT = (EOFError, OSError, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class BadRow:
    """A row that is no episode, and why."""

    where: str
    """`line 12`, `item 3`, or the name of a sample."""
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class Row:
    """One decoded row."""

    where: str
    value: Any


def json_rows(path: Path) -> Iterator[Row | BadRow]:
    """The items of a JSON list, or the lines of a JSONL file, by what the file begins with."""
    with open_bytes(path) as file:
        head = b""
        try:
            head = file.readline()
            if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
                yield from _items(path, head + file.read())
                return
        except _CUT as error:
            yield BadRow("line 1", f"the file is cut off or corrupt: {error}")
            return
        yield from _lines(head, file)


def load_json(path: Path) -> Any:
    """A file that is one JSON value."""
    try:
        with open_bytes(path) as file:
            return decode(file.read())
    except (*_CUT, ValueError) as error:
        raise InputError(f"{path}: {error}") from None


def open_bytes(path: Path) -> IO[bytes]:
    """The file's bytes, decompressed."""
    head = beginning(path)
    opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
    return path.open("rb") if opener is None else cast(IO[bytes], opener(path, "rb"))


def beginning(path: Path) -> bytes:
    """The first bytes of the file as they lie there, which tell what kind it is."""
    try:
        with path.open("rb") as file:
            return file.read(6)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def decode(data: bytes) -> Any:
    """The JSON value in `data`; ValueError with a reason fit for a reader if there is none."""
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {data[error.start]:#04x} at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None


def _lines(head: bytes, file: IO[bytes]) -> Iterator[Row | BadRow]:
    number, line = 1, head
    while line:
        where = f"line {number}"
        if line.strip():
            try:
                row: Row | BadRow = Row(where, decode(line))
            except ValueError as error:
                row = BadRow(where, str(error))
            yield row
        number += 1
        try:
            line = file.readline()
        except _CUT as error:
            yield BadRow(f"line {number}", f"the file is cut off or corrupt: {error}")
            return


def _items(path: Path, data: bytes) -> Iterator[Row]:
    try:
        values = decode(data)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    for number, value in enumerate(values, start=1):
        yield Row(f"item {number}", value)
