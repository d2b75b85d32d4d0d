"""Arrays on disk: what a large log has one number per step of does not stay in memory.

An array of more than `IN_MEMORY` numbers is a map of a file without a name, which the system deletes with its last
user, however that ends. Whoever walks through such arrays block by block calls `release` after each: pages that were
read or written leave the process's memory, and nothing is lost.
"""

import mmap
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from worldline import files

IN_MEMORY = 1 << 16
"""Numbers of an array that is not worth a file."""


class Scratch:
    """Makes arrays, in memory or in files on the disk of `folder` (the system's temporary directory if None)."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        self._maps: list[weakref.ref[mmap.mmap]] = []

    def empty(self, count: int) -> npt.NDArray[np.float64]:
        """`count` numbers, to be filled."""
        if count <= IN_MEMORY:
            return np.empty(count)
        with files.unnamed(self._folder, 8 * count) as file:
            mapped = mmap.mmap(file.fileno(), 8 * count)
        self._maps = [each for each in self._maps if each() is not None]
        self._maps.append(weakref.ref(mapped))
        return np.frombuffer(mapped, dtype=np.float64)

    def stored(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """A copy of `values` here; themselves where they are small."""
        if len(values) <= IN_MEMORY:
            return values
        copy = self.empty(len(values))
        copy[:] = values
        self.release()
        return copy

    def column(self) -> "GrowingColumn":
        return GrowingColumn(self)

    def release(self) -> None:
        """Give the pages of all arrays back to the system; they are read again when they are next needed."""
        advice: Any = getattr(mmap, "MADV_DONTNEED", None)
        for reference in self._maps if advice is not None else ():
            if (mapped := reference()) is not None:
                mapped.madvise(advice)


class GrowingColumn:
    """An array that grows: its size doubles when it is full."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._array = scratch.empty(IN_MEMORY)
        self._used = 0

    def append(self, values: npt.NDArray[np.float64]) -> None:
        needed = self._used + len(values)
        if needed > len(self._array):
            larger = self._scratch.empty(max(needed, 2 * len(self._array)))
            for first in range(0, self._used, IN_MEMORY):
                part = slice(first, min(first + IN_MEMORY, self._used))
                larger[part] = self._array[part]
                self._scratch.release()
            self._array = larger
        self._array[self._used : needed] = values
        self._used = needed
        self._scratch.release()

    @property
    def array(self) -> npt.NDArray[np.float64]:
        return self._array[: self._used]
