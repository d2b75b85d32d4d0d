"""Files that are there whole or not at all: write beside, sync, rename. Every file of the product is written here.

What another library writes (a model, an index) goes through `replacing`: it fills a temporary path, which takes the
final name when it is whole. Lines are appended whole; a line that a crash cut short is ignored and then cut off.
POSIX file systems. Tests break each of the five system calls at the end of this file in turn.
"""

import fcntl
import glob
import hashlib
import io
import json
import math
import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from worldline.types import InputError, WorldlineError

_TEMPORARY = ".tmp"
_OLD = "old"
_BUFFER = 1 << 20


def write(path: Path, content: str | bytes) -> None:
    """The file with this content; if that fails, what was there before is still there."""
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    with replacing(path) as partial, partial.open("xb") as file:
        _write(file, data)


def write_json(path: Path, value: Any) -> None:
    """The file with `value` as JSON; a number that is not finite is null."""
    write(path, json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file, or one line that names it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: corrupt: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: corrupt: a JSON object is expected, this is {type(content).__name__}")
    return content


def finite(value: Any) -> Any:
    """`value` for JSON, which has no NaN: an unknown number is None."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A free path beside `path`, for a file or a folder; when the block ends it takes the place of `path`.

    If the block raises, `path` stays as it was. A folder that is there is moved aside first; after a crash between the
    two steps the next writer puts it back.
    """
    partial, old = (_temporary(path, part) for part in (secrets.token_hex(4), _OLD))
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, path.name)
        try:
            yield partial
            _sync_all(partial)
            if partial.is_dir() and path.exists():
                _rename(path, old)
            _rename(partial, path)
            _sync(path.parent)
        except BaseException:
            _remove(partial)
            if old.exists() and not path.exists():
                os.replace(old, path)
            raise
        _remove(old)


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """A file for a library that writes to an open one; it takes the place of `path` when the block ends."""
    with (
        replacing(path) as partial,
        partial.open("xb", buffering=0) as file,
        io.BufferedWriter(_Writer(file), _BUFFER) as buffered,
    ):
        yield buffered


def unnamed(folder: Path, size: int) -> IO[bytes]:
    """An open file of `size` bytes without a name, on the disk of `folder`: it is gone with its last user.

    The bytes are reserved at once: a disk that is too small is an error here, and no signal later to whoever maps them.
    """
    with _named(folder / f"a temporary file of {size:,} bytes"):
        file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - the caller closes it
        try:
            _reserve(file, size)
        except BaseException:
            file.close()
            raise
    return file


def new_file(path: Path | str) -> Path:
    """`path` as a file that can be written: its folder is made; one that cannot be is named."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{path}: a folder: give the file to write")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{target.parent}: cannot be a folder: {error.strerror}") from None
    return target


def not_utf8(error: UnicodeDecodeError, *, whole: bool = True) -> str:
    """What is wrong with a text and how to mend it; the place where all of the text was decoded at once."""
    place = f" at byte {error.start + 1}" if whole else ""
    return f"not UTF-8: {error.object[error.start]:#04x}{place}: save it as UTF-8"


def digest(paths: Iterable[Path]) -> str:
    """What these files are, by name and content, whatever folder they lie in."""
    total = hashlib.blake2b(digest_size=16)
    for path in sorted(paths):
        with path.open("rb") as file:
            total.update(f"{path.name}:{hashlib.file_digest(file, 'blake2b').hexdigest()}\n".encode())
    return total.hexdigest()


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Clear away what processes of this machine, killed in the middle of a write, left behind in `folder`."""
    host = socket.gethostname()
    for path in folder.glob(f".{name if name == '*' else glob.escape(name)}@{glob.escape(host)}@*{_TEMPORARY}"):
        final, owner, part = path.name.removesuffix(_TEMPORARY).replace(f"@{host}@", "@").rsplit("@", 2)
        if owner.isdigit() and not _alive(int(owner)):
            target = path.with_name(final[1:])
            if part == _OLD and not target.exists():
                os.replace(path, target)
            else:
                _remove(path)


def is_temporary(path: Path) -> bool:
    """Whether this is the name of something that is still being written, or that a killed process left."""
    return path.name.startswith(".") and path.name.endswith(_TEMPORARY) and path.name.count("@") >= 3


def delete(path: Path) -> None:
    """Delete a file, a link or a whole folder, if it is there."""
    with _named(path, "deleted"):
        if path.exists() or path.is_symlink():
            _delete(path)


@dataclass(frozen=True)
class Lines:
    """The whole lines of a file, and whether a last one was cut short."""

    whole: list[str]
    torn: bool


def read_lines(path: Path) -> Lines:
    """The lines of a file that is appended to; none where there is no file."""
    if not path.exists():
        return Lines([], torn=False)
    *whole, rest = path.read_bytes().split(b"\n")
    return Lines([line.decode("utf-8", "replace") for line in whole], torn=bool(rest))


def append_line(path: Path, line: str) -> None:
    """One more line, whole or not at all; a torn line that a crash left at the end is cut off first."""
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            whole = _end_of_last_line(file, size)
            if whole != size:
                file.truncate(whole)
            try:
                _write(file, line.encode("utf-8", "replace") + b"\n")
            except BaseException:
                file.truncate(whole)
                raise


@contextmanager
def locked(path: Path, *, taken: str = "") -> Iterator[None]:
    """Hold the lock file at `path`; if another process holds it, raise `taken` as an InputError, or wait if empty.

    The lock dies with its holder, so a killed process leaves nothing to clean up.
    """
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = _locked_handle(path, taken)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still held: nobody can hold the same file afterwards
        handle.close()


def _locked_handle(path: Path, taken: str) -> IO[bytes]:
    while True:
        handle = path.open("ab")
        try:
            _lock(handle, wait=not taken)
            if path.exists() and os.fstat(handle.fileno()).st_ino == path.stat().st_ino:
                return handle  # not a file that its last holder has deleted meanwhile
        except BlockingIOError:
            handle.close()
            raise InputError(taken) from None
        except FileNotFoundError:
            pass
        except BaseException:
            handle.close()
            raise
        handle.close()


@contextmanager
def _named(path: Path, done: str = "written") -> Iterator[None]:
    """The system's errors as one line that names the file."""
    try:
        yield
    except OSError as error:
        raise WorldlineError(f"{path}: cannot be {done}: {error.strerror or error}") from error


def _end_of_last_line(file: io.FileIO, size: int) -> int:
    """Where the last whole line ends."""
    end = size
    while end:
        start = max(0, end - 65536)
        file.seek(start)
        cut = file.read(end - start).rfind(b"\n")
        if cut >= 0:
            return start + cut + 1
        end = start
    return 0


def _sync_all(path: Path) -> None:
    """Sync a file, or a folder and all that is in it."""
    for inside in sorted(path.rglob("*")) if path.is_dir() else ():
        _sync(inside)
    _sync(path)


def _temporary(path: Path, part: str) -> Path:
    """A hidden name beside `path` that says which process uses it."""
    return path.with_name(f".{path.name}@{socket.gethostname()}@{os.getpid()}@{part}{_TEMPORARY}")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's, but alive
        pass
    return True


class _Writer(io.RawIOBase):
    """A file whose writes are the product's own, so that tests can break them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        _write(self._file, data)
        return memoryview(data).nbytes


def _write(file: IO[bytes], data: Any) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[file.write(view) :]


def _reserve(file: IO[bytes], size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for first in range(0, size, _BUFFER):
        _write(file, bytes(min(_BUFFER, size - first)))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _rename(source: Path, target: Path) -> None:
    os.replace(source, target)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _lock(handle: IO[bytes], *, wait: bool) -> None:
    fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
