"""The names in a log, of episodes, tasks and groups: as texts without an object each, and as small integers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from worldline.types import InputError


@dataclass(frozen=True, eq=False)
class Names(Sequence[str]):
    """A column of texts: as many bytes as they have letters, and eight."""

    texts: pa.LargeStringArray

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> "Names": ...

    def __getitem__(self, index: int | slice) -> "str | Names":
        if isinstance(index, slice):
            return Names(self.texts[index])
        text: str = self.texts[int(index)].as_py()
        return text

    def take(self, rows: npt.NDArray[np.int64]) -> "Names":
        return Names(self.texts.take(pa.array(rows)))


def column(chunks: Sequence[pa.Array]) -> Names:
    """The texts of all chunks, in order."""
    texts = [chunk.cast(pa.large_string()) for chunk in chunks]
    return Names(pa.chunked_array(texts, pa.large_string()).combine_chunks())


def chosen(names: Sequence[str], rows: npt.NDArray[np.int64]) -> Sequence[str]:
    """The names of these rows; none where there are none at all."""
    if isinstance(names, Names):
        return names.take(rows)
    return tuple(names[i] for i in rows) if names else ()


def refuse_repeated(names: Names) -> None:
    """InputError if an episode is there twice."""
    codes = coded(names)
    if len(codes.names) == len(names):
        return
    times = np.bincount(codes.codes)
    first = int(codes.codes[np.argmax(times[codes.codes] > 1)])
    raise InputError(f"episode id '{codes.names[first]}' occurs {times[first]} times: was a log folder given twice?")


@dataclass(frozen=True)
class Coded:
    """Names as small integers."""

    codes: npt.NDArray[np.int64]
    names: Sequence[str]


def coded(names: Sequence[str]) -> Coded:
    """`names` by their rank among the distinct ones."""
    if isinstance(names, Names):
        return _coded_column(names)
    distinct = sorted(set(names))
    index = {name: code for code, name in enumerate(distinct)}
    return Coded(np.array([index[name] for name in names], dtype=np.int64), tuple(distinct))


def _coded_column(names: Names) -> Coded:
    """By sorting, which takes less memory than a table of all names; bytes of UTF-8 sort as its characters do."""
    if not len(names):
        return Coded(np.zeros(0, dtype=np.int64), names)
    order = pc.sort_indices(names.texts).to_numpy()
    ordered = names.texts.take(pa.array(order))
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)
    codes = np.empty(len(order), dtype=np.int64)
    codes[order] = np.cumsum(new) - 1
    return Coded(codes, Names(ordered.filter(pa.array(new))))


@contextmanager
def lean_memory() -> Iterator[None]:
    """Arrow's buffers from the system's own allocator, which gives back what is freed; others keep tens of MB."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(before)
