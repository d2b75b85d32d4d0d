"""Writing: an episode is in the store whole or not at all, also after kill -9, and never twice.

A shard is composed in memory and then written by `files.write`; its name carries the time, so that sorted names give
the order of writing, and a digest of its bytes, which the reader checks. Any number of processes may write into one
folder: they take turns for the moment in which a shard's ids are compared with those that are there and it gets its
name. Shards are never changed and never merged.
"""

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from worldline import files
from worldline.signals import uninterrupted
from worldline.store.reader import shard_ids, shard_name
from worldline.store.schema import SCHEMA, mend, to_table
from worldline.types import InputError, Trajectory, WorldlineError

_MAX_PENDING_TEXT = 64 << 20
"""Characters held back at most: bounds memory, and keeps each Arrow column far below its 2 GB."""


class StoreWriter:
    """Appends trajectories to a folder of shards; what is pending is written when the `with` block ends, however."""

    def __init__(self, folder: Path | str, *, flush_every: int = 64, flush_seconds: float = 30.0) -> None:
        """A shard is written after `flush_every` episodes, or at the first one after `flush_seconds`."""
        self.folder = Path(folder)
        self.written = 0
        """Episodes that are safely on the disk."""
        self.mended = 0
        """Texts with characters that cannot be stored, replaced by U+FFFD."""
        self._flush_every = flush_every
        self._flush_seconds = flush_seconds
        self._pending: dict[str, Trajectory] = {}
        self._pending_text = 0
        self._flushed_at = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise InputError(f"{self.folder}: is a file: name a folder") from None
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be a log folder: {error.strerror}") from None
        files.remove_leftovers(self.folder)

    def held(self, ids: Iterable[str]) -> set[str]:
        """Which of these episodes are in the folder, or pending here."""
        names = {mend(name): name for name in ids}
        there = [shard & names.keys() for shard in self._ids()]
        return {names[name] for name in set().union(names.keys() & self._pending.keys(), *there)}

    def append(self, trajectory: Trajectory) -> None:
        name = mend(trajectory.id)
        if name in self._pending:
            raise InputError(f"{self.folder}: episode '{name}' is given twice: give each episode its own id")
        self._pending[name] = trajectory
        self._pending_text += _text_size(trajectory)
        if (
            len(self._pending) >= self._flush_every
            or self._pending_text >= _MAX_PENDING_TEXT
            or time.monotonic() - self._flushed_at >= self._flush_seconds
        ):
            self.flush()

    def flush(self) -> None:
        """Write what is pending as one shard. When that fails the episodes stay pending, and may be flushed again."""
        self._flushed_at = time.monotonic()
        if not self._pending:
            return
        table, mended = to_table(list(self._pending.values()))
        data = _shard(table)
        self._refuse_repeated()  # here too, so that the lock need not be held while many shards are read
        with uninterrupted():  # or the last flush would write a second time what is written but still pending
            with files.locked(self.folder / ".lock"):
                self._refuse_repeated()
                files.write(self.folder / shard_name(time.time_ns(), data), data)
            self.written += len(self._pending)
            self.mended += mended
            self._pending = {}
            self._pending_text = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            self.flush()
        except WorldlineError as failure:
            if error is None:
                raise
            why = "" if _one_cause(error, failure) else f": {failure}"
            error.add_note(f"{len(self._pending)} finished episodes are lost{why}")

    def _refuse_repeated(self) -> None:
        repeated = [name for ids in self._ids() for name in ids & self._pending.keys()]
        if repeated:
            more = f" (and {len(repeated) - 1} more)" if len(repeated) > 1 else ""
            how = "--resume leaves out what is there; other episodes need ids of their own"
            raise InputError(f"{self.folder}: holds episode '{min(repeated)}' already{more}: {how}")

    def _ids(self) -> Iterable[frozenset[str]]:
        """The ids of each readable shard. A broken one is for its readers to refuse: it must not cost new episodes."""
        for path in self.folder.glob("*.parquet"):
            try:
                yield shard_ids(path)
            except InputError:
                continue


def _one_cause(error: BaseException, failure: WorldlineError) -> bool:
    """Whether both are one refusal of the system, such as a full disk; they name two shards, the tries of one."""
    first, second = error.__cause__, failure.__cause__
    return isinstance(first, OSError) and isinstance(second, OSError) and first.errno == second.errno


def export_parquet(trajectories: Iterable[Trajectory], path: Path | str) -> int:
    """Write one Parquet file with the columns of a log and say how many episodes it has; whole or not at all."""
    target = files.new_file(path)
    written = 0
    with files.replacing(target) as partial, pq.ParquetWriter(partial, SCHEMA, compression="zstd") as file:
        for batch in _batches(trajectories):
            file.write_table(to_table(batch)[0])
            written += len(batch)
    return written


def _batches(trajectories: Iterable[Trajectory], size: int = 256) -> Iterator[list[Trajectory]]:
    remaining = iter(trajectories)
    while batch := list(islice(remaining, size)):
        yield batch


def _shard(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _text_size(trajectory: Trajectory) -> int:
    return sum(len(step.observation) + len(step.response) + len(step.action) for step in trajectory.steps)
