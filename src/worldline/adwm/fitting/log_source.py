"""Where `fit` reads a log: block after block, from memory or from Parquet shards. A large log is never held whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from worldline import store
from worldline.types import Trajectory

Numbers = npt.NDArray[np.int64]
BLOCK = 256
"""Episodes of a block of a log in memory. On disk, a block is a row group."""


class LogSource(Protocol):
    """A log, in blocks of consecutive episodes."""

    @property
    def sizes(self) -> Sequence[int]:
        """The number of episodes in each block."""
        ...

    def read(self, block: int, rows: Sequence[int] | None = None) -> Iterator[Trajectory]:
        """The episodes of a block, or those at `rows` of it."""
        ...


@dataclass(frozen=True)
class MemoryLog:
    """Episodes that somebody holds anyway."""

    episodes: Sequence[Trajectory]

    @property
    def sizes(self) -> list[int]:
        return [min(BLOCK, len(self.episodes) - start) for start in range(0, len(self.episodes), BLOCK)]

    def read(self, block: int, rows: Sequence[int] | None = None) -> Iterator[Trajectory]:
        part = self.episodes[block * BLOCK : (block + 1) * BLOCK]
        return iter(part) if rows is None else (part[row] for row in rows)


@dataclass(frozen=True)
class FolderLog:
    """Folders of shards."""

    groups: tuple[store.RowGroup, ...]

    @classmethod
    def of(cls, folders: Sequence[Path]) -> "FolderLog":
        return cls(tuple(store.row_groups(folders)))

    @property
    def sizes(self) -> list[int]:
        return [group.episodes for group in self.groups]

    def read(self, block: int, rows: Sequence[int] | None = None) -> Iterator[Trajectory]:
        return store.read_row_group(self.groups[block], rows)


def episodes_of(source: LogSource) -> Iterator[Trajectory]:
    """All episodes, in the order of the log."""
    return (episode for block in range(len(source.sizes)) for episode in source.read(block))


def chosen(source: LogSource, numbers: Numbers) -> list[Trajectory]:
    """The episodes with these numbers, which ascend, from the blocks that have one."""
    firsts = np.concatenate([[0], np.cumsum(source.sizes)])
    picked: list[Trajectory] = []
    for block, (first, end) in enumerate(zip(firsts[:-1], firsts[1:], strict=True)):
        rows = numbers[np.searchsorted(numbers, first) : np.searchsorted(numbers, end)] - first
        if len(rows):
            picked += source.read(block, rows.tolist())
    return picked
