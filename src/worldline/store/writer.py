"""Writing: an episode is in the store whole or not at all, also after kill -9.

A shard is composed in memory, written under a name no `*.parquet` pattern matches, synced, and only then given its
final name, which no other writer can have chosen. Any number of processes may write into one folder. Shards are
never changed and never merged. POSIX file systems.
"""

import os
import secrets
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from worldline.signals import uninterrupted
from worldline.store.schema import to_table
from worldline.types import InputError, Trajectory, WorldlineError

_TEMPORARY = ".tmp"
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
        self._pending: list[Trajectory] = []
        self._pending_text = 0
        self._flushed_at = time.monotonic()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be a log folder: {error.strerror}") from None
        _remove_leftovers(self.folder)

    def append(self, trajectory: Trajectory) -> None:
        self._pending.append(trajectory)
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
        table, mended = to_table(self._pending)
        with uninterrupted():  # or the last flush would write a second time what is written but still pending
            _write_shard(self.folder, table)
            self.written += len(self._pending)
            self.mended += mended
            self._pending = []
            self._pending_text = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.flush()


def _write_shard(folder: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    # The time comes first so that sorted names give the order of writing; the rest makes the name unique.
    name = f"{time.time_ns():020d}-{secrets.token_hex(6)}"
    temporary = folder / f".{name}@{socket.gethostname()}@{os.getpid()}{_TEMPORARY}"
    try:
        with temporary.open("xb") as file:
            file.write(sink.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, folder / f"{name}.parquet")
        _sync_folder(folder)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise WorldlineError(f"{folder}: cannot write a shard: {error.strerror}") from None


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Delete what writers of this machine left behind when they were killed in the middle of a shard."""
    for path in folder.glob(f".*@{socket.gethostname()}@*{_TEMPORARY}"):
        owner = path.name.removesuffix(_TEMPORARY).rpartition("@")[2]
        if owner.isdigit() and not _alive(int(owner)):
            path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's, but alive
        pass
    return True


def _text_size(trajectory: Trajectory) -> int:
    return sum(len(step.observation) + len(step.response) + len(step.action) for step in trajectory.steps)
