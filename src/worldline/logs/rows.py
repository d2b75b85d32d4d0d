"""The rows of a log file: lines or list items, plain, gzip or xz, with every problem tied to its place.

A row that cannot be decoded is handed on with the reason instead of ending the file: the importer decides. Files are
read row by row, and what a row or a compressed file may grow to is limited, so that no file can take all memory.
"""

import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline import files
from worldline.types import InputError

MAX_ROW = 64 << 20
"""Bytes of one row: a line, a list item, a sample."""
MAX_DOCUMENT = 256 << 20
"""Bytes of a file that has to be read as one JSON value."""
MAX_VALUES = 4 << 20
"""Values in one JSON text: a value of two bytes takes a hundred once it is decoded."""
MAX_DECOMPRESSED = 2 << 30
MAX_RATIO = 200
"""A compressed file may unfold to `MAX_DECOMPRESSED` bytes, and to this many times its size (but always to a row)."""

_OPENERS: dict[bytes, type[gzip.GzipFile | lzma.LZMAFile]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
"""By the first bytes of the file, whatever it is called."""
_CUT = (EOFError, OSError, lzma.LZMAError, zlib.error)
_CHUNK = 1 << 20
_BLANK = b"\xef\xbb\xbf \t\r\n"
_IN_TEXT = re.compile(rb'["\\]')
_OUTSIDE_TEXT = re.compile(rb'["\[\]{},]')
_LONG_ROW = f"a row of over {MAX_ROW >> 20} MiB"


@dataclass(frozen=True)
class BadRow:
    """A row that is no episode, and why."""

    where: str
    """`line 12`, `item 3`, or the name of a sample."""
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class DecodedRow:
    """One row of a file, decoded from JSON but not yet an episode."""

    where: str
    value: Any


def json_rows(path: Path) -> Iterator[DecodedRow | BadRow]:
    """The items of a JSON list, or the lines of a JSONL file, by what the file begins with."""
    with open_bytes(path) as file:
        try:
            head = file.readline(MAX_ROW + 1)
        except _CUT as error:
            yield BadRow("line 1", f"the file is cut off or corrupt: {error}")
            return
        yield from _items(head, file) if head.lstrip(_BLANK).startswith(b"[") else _lines(head, file)


def load_json(path: Path) -> Any:
    """A file that is one JSON value."""
    try:
        data = bytearray()
        with open_bytes(path) as file:
            while len(data) <= MAX_DOCUMENT and (part := file.read1(_CHUNK)):
                data += part
        if len(data) > MAX_DOCUMENT:
            raise ValueError(f"over {MAX_DOCUMENT >> 20} MiB of JSON: split it, or convert it to .eval")
        return decode(data)
    except (*_CUT, ValueError) as error:
        raise InputError(f"{path}: {error}") from None


def open_bytes(path: Path) -> io.BufferedReader:
    """The file's bytes, decompressed as far as the limits go."""
    head = beginning(path)
    opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
    if opener is None:
        return path.open("rb")
    return io.BufferedReader(_Decompressed(path, opener(path, "rb")), _CHUNK)


def most_decompressed(path: Path) -> int:
    """How many bytes a compressed file may unfold to."""
    return min(MAX_DECOMPRESSED, max(MAX_ROW, MAX_RATIO * path.stat().st_size))


def too_large(path: Path) -> InputError:
    """The line for a compressed file that unfolds to more."""
    most = f"over {most_decompressed(path) >> 20} MiB"
    return InputError(f"{path}: unfolds to {most}, too much for its size: if you trust it, give it uncompressed")


def beginning(path: Path) -> bytes:
    """The first bytes of the file as they lie there, which tell what kind it is."""
    try:
        with path.open("rb") as file:
            return file.read(6)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def decode(data: bytes | bytearray) -> Any:
    """The JSON value in `data`; ValueError with a reason fit for a reader if there is none."""
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"over {MAX_VALUES >> 20} million JSON values in one row")
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(files.not_utf8(error)) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg.removesuffix(' at')} at character {error.pos + 1}") from None
    except RecursionError:
        raise ValueError("not JSON that can be read: nested too deeply") from None
    except ValueError:  # Python's own limit, which guards against slow conversions
        raise ValueError("not JSON that can be read: a number of over 4,300 digits") from None


class _Decompressed(io.RawIOBase):
    """A decompressed stream that refuses to go on beyond what its file may unfold to."""

    def __init__(self, path: Path, stream: gzip.GzipFile | lzma.LZMAFile) -> None:
        self._path = path
        self._stream = stream
        self._left = most_decompressed(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._stream.read1(len(buffer))
        self._left -= len(part)
        if self._left < 0:
            raise too_large(self._path)
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _lines(line: bytes, file: io.BufferedReader) -> Iterator[DecodedRow | BadRow]:
    number = 1
    while line:
        where = f"line {number}"
        if line.strip():
            yield _row(where, line)
        number += 1
        try:
            while len(line) > MAX_ROW and not line.endswith(b"\n"):  # what is left of a row that is too long
                line = file.readline(MAX_ROW + 1)
            line = file.readline(MAX_ROW + 1)
        except _CUT as error:
            yield BadRow(f"line {number}", f"the file is cut off or corrupt: {error}")
            return


def _items(head: bytes, file: io.BufferedReader) -> Iterator[DecodedRow | BadRow]:
    """The items of a list, cut at its commas: a bad item costs neither the others nor more memory than an item."""
    number, depth, in_text = 1, 0, False
    item = bytearray()
    chunk, place = head, 0
    while chunk:
        start = 0
        while place < len(chunk) and (match := (_IN_TEXT if in_text else _OUTSIDE_TEXT).search(chunk, place)):
            place, sign = match.end(), match[0]
            if sign == b"\\":
                place += 1  # and over what it escapes, even if that is in the next chunk
            elif sign == b'"':
                in_text = not in_text
            elif sign in b"[{":
                depth += 1
                start = place if depth == 1 else start
            elif sign in b"]}":
                depth -= 1
            if (sign == b"," and depth == 1) or depth == 0:
                item += chunk[start : place - 1]
                if number > 1 or depth or item.strip():  # an empty list has no item
                    yield _row(f"item {number}", item)
                if depth == 0:
                    yield from _after_list(f"item {number + 1}", chunk[place:], file)
                    return
                number, start, item = number + 1, place, bytearray()
        if len(item) <= MAX_ROW:
            item += chunk[start:]
        place = max(place - len(chunk), 0)
        try:
            chunk = file.read1(_CHUNK)
        except _CUT as error:
            yield BadRow(f"item {number}", f"the file is cut off or corrupt: {error}")
            return
    yield BadRow(f"item {number}", "not JSON: the list does not end")


def _after_list(where: str, rest: bytes, file: io.BufferedReader) -> Iterator[BadRow]:
    try:
        while not rest.strip():
            rest = file.read1(_CHUNK)
            if not rest:
                return
    except _CUT as error:
        yield BadRow(where, f"the file is cut off or corrupt: {error}")
    else:
        yield BadRow(where, "not JSON: something follows the end of the list")


def _row(where: str, data: bytes | bytearray) -> DecodedRow | BadRow:
    try:
        if len(data) > MAX_ROW:
            raise ValueError(_LONG_ROW)
        return DecodedRow(where, decode(data))
    except ValueError as error:
        return BadRow(where, str(error))
