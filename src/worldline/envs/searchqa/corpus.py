"""A corpus of passages on disk: indexed once, then memory-mapped and shared by every process that opens it.

Rows have `title` and `text`, or Search-R1's `contents`, whose first line is the title. The index is a folder of bm25s's
arrays, the passages with their offsets, and a stamp that says what it was made from; another corpus makes it anew.
"""

import json
import mmap
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import bm25s
import numpy as np

from worldline.envs.jsonlines import rows_of
from worldline.envs.searchqa.passage import Passage
from worldline.envs.searchqa.retrieval import Bm25, build
from worldline.types import InputError

FORMAT = 1
_STAMP, _PASSAGES, _OFFSETS, _BM25 = "stamp.json", "passages.jsonl", "offsets.npy", "bm25"


def read_passages(files: Iterable[Path]) -> Iterator[Passage]:
    """The passages of all files, in order."""
    for file in files:
        for place, row in rows_of(file):
            yield to_passage(row, place)


def to_passage(row: dict[str, Any], place: str) -> Passage:
    """A row as a passage, whichever of the two forms it has."""
    if isinstance(row.get("text"), str):
        return Passage(str(row.get("title", "")), row["text"])
    if isinstance(row.get("contents"), str):
        title, _, text = row["contents"].partition("\n")
        return Passage(title.strip('"'), text) if text else Passage("", title)
    raise InputError(f"{place}: a passage has 'text' (and 'title') or 'contents', this row has {', '.join(row)}")


def open_index(files: Sequence[Path], folder: Path) -> Bm25:
    """BM25 over the passages of `files`; `folder` keeps the index, which is built if it is not there yet."""
    stamp = {"format": FORMAT, "files": [[file.name, file.stat().st_size, file.stat().st_mtime_ns] for file in files]}
    if _stamp_of(folder) != stamp:
        _write_index(files, folder, stamp)
    index = bm25s.BM25.load(folder / _BM25, mmap=True, show_progress=False)
    return Bm25(index, PassageFile(folder))


class PassageFile(Sequence[Passage]):
    """The passages of an index, read from the memory map one by one on request."""

    def __init__(self, folder: Path) -> None:
        self._offsets = np.load(folder / _OFFSETS, mmap_mode="r")
        with (folder / _PASSAGES).open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Passage: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Passage]: ...
    def __getitem__(self, index: int | slice) -> Passage | Sequence[Passage]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        position = range(len(self))[index]
        start, end = int(self._offsets[position]), int(self._offsets[position + 1])
        return Passage(*json.loads(self._map[start:end]))


def _stamp_of(folder: Path) -> Any:
    """What an index was made from; None where there is none yet."""
    if not folder.exists():
        return None
    try:
        return json.loads((folder / _STAMP).read_text())
    except (OSError, ValueError):
        raise InputError(f"{folder}: exists and is no index of worldline's: set the option 'index' elsewhere") from None


def _write_index(files: Sequence[Path], folder: Path, stamp: dict[str, Any]) -> None:
    """Made aside and moved into place whole, so that a crash or a second process leaves no half index."""
    made = folder.with_name(f"{folder.name}.{os.getpid()}")
    if folder.parent.is_dir() and not folder.parent.stat().st_mode & 0o222:  # root could, but is not meant to
        line = "the folder around it is read-only: set the option 'index', or WORLDLINE_CACHE, to another place"
        raise InputError(f"{folder}: {line}")
    try:
        made.mkdir(parents=True)
    except OSError as error:
        line = f"cannot keep the index there ({error.strerror}): set the option 'index', or WORLDLINE_CACHE"
        raise InputError(f"{folder}: {line}") from None
    try:
        _fill(made, files)
        (made / _STAMP).write_text(json.dumps(stamp))
        if folder.exists():
            shutil.rmtree(folder)
        try:
            made.rename(folder)
        except OSError:
            if _stamp_of(folder) != stamp:  # another process was faster, with the same corpus
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _fill(folder: Path, files: Sequence[Path]) -> None:
    if next(read_passages(files), None) is None:
        raise InputError(f"{files[0]}: holds no passage")
    offsets = [0]

    def texts() -> Iterator[str]:
        with (folder / _PASSAGES).open("wb") as kept:
            for passage in read_passages(files):
                line = json.dumps([passage.title, passage.text], ensure_ascii=False).encode() + b"\n"
                offsets.append(offsets[-1] + kept.write(line))
                yield f"{passage.title} {passage.text}"

    index = build(texts())
    index.save(folder / _BM25, show_progress=False)
    np.save(folder / _OFFSETS, np.asarray(offsets, dtype=np.int64))
