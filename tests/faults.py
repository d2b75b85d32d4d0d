"""Breaking the product's file system calls one at a time, in a forked child: the disk is full, or the process dies.

`points(work)` counts the calls that `work` makes; `broken(work, n, how)` runs it with the n-th one broken;
`broken_everywhere` breaks each of them: the work is done once, and a fork of it breaks at every call.
Nothing is synced in the child: it is processes that die here.
"""

import errno
import fcntl
import os
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from worldline import files
from worldline.types import WorldlineError

CALLS = ("_write", "_sync", "_rename", "_delete", "_lock")
KILLED, REFUSED, RAISED = 137, 70, 71
How = Literal["full", "killed"]
"""`full`: the call raises ENOSPC, after half of the data in case of a write. `killed`: the process is gone there."""


def points(work: Callable[[], Any]) -> int:
    """How many file system calls `work` makes."""
    return _counted(work, lambda number: False, "full")


def broken(work: Callable[[], Any], number: int, how: How) -> int:
    """The exit code of `work` with its `number`-th call (from 0) broken: 70 if it failed with one line, 71 if with
    anything but that."""
    return _forked(work, lambda made: made == number, how, None)


@dataclass(frozen=True)
class Left:
    """A folder as broken work left it, and how many calls leave exactly this when they break."""

    path: Path
    calls: int


def broken_everywhere(work: Callable[[Path], Any], folder: Path, how: How) -> Iterator[Path]:
    """`work` with each of its calls broken: its folder as each of them leaves it, one after the other at the path at
    which it was made. What is changed there is gone afterwards."""
    for copy in _break_every_call(work, folder / "run", how):
        yield _put(copy, folder / "run")


def states_left(
    work: Callable[[Path], Any], folder: Path, how: How, before: Callable[[Path], Any] = lambda run: None
) -> Iterator[Left]:
    """The same, but what several calls leave alike comes once: the same names and bytes of all files, at the same path,
    and so the same from there on. `before` fills the folder; nothing breaks there."""
    before(folder / "run")
    states: dict[frozenset[tuple[str, bytes | None]], list[Path]] = {}
    for copy in _break_every_call(work, folder / "run", how):
        states.setdefault(frozenset(_content(copy).items()), []).append(copy)
    for same in states.values():
        yield Left(_put(same[0], folder / "run"), len(same))


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every visible file below a folder, with its content."""
    return {
        name: content
        for name, content in _content(folder).items()
        if content is not None and not any(part.startswith(".") for part in Path(name).parts)
    }


def _content(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: a file's bytes, None for a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def _break_every_call(work: Callable[[Path], Any], run: Path, how: How) -> list[Path]:
    """Copies of the folder `run`, as `work` leaves it with its first call broken, its second, ..."""

    def copy(number: int) -> Path:
        return run.with_name(f"{run.name}-{number}")

    def breaks(number: int) -> bool:
        """No, but a fork of this process does, in a copy of the folder; it is waited for."""
        original = run.rename(run.with_name("original"))
        shutil.copytree(original, run)
        child = os.fork()
        if child == 0:
            _reopen(original, run)
            return True
        status = _ended(child)
        assert status == (KILLED if how == "killed" else REFUSED), f"call {number} broken: the work ended with {status}"
        run.rename(copy(number))
        original.rename(run)
        return False

    return [copy(number) for number in range(_counted(lambda: work(run), breaks, how))]


def _put(folder: Path, place: Path) -> Path:
    shutil.rmtree(place)
    return folder.rename(place)


def _reopen(original: Path, copy: Path) -> None:
    """The open files of this process that lie in a folder: from now on those of its copy, at the same place in them."""
    inodes = {path.stat().st_ino: path for path in original.rglob("*") if path.is_file()}
    for handle in range(3, 256):
        with suppress(OSError):  # not open
            path = inodes.get(os.fstat(handle).st_ino)
            if path is not None:
                other = os.open(copy / path.relative_to(original), fcntl.fcntl(handle, fcntl.F_GETFL))
                os.lseek(other, os.lseek(handle, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(other, handle)
                os.close(other)


def _counted(work: Callable[[], Any], breaks: Callable[[int], bool], how: How) -> int:
    """How many calls `work` made, which nothing is to disturb."""
    reader, writer = os.pipe()
    status = _forked(work, breaks, how, writer)
    os.close(writer)
    with os.fdopen(reader) as counted:
        count = counted.read()
    assert status == 0, f"the undisturbed work failed with {status}"
    return int(count)


def _forked(work: Callable[[], Any], breaks: Callable[[int], bool], how: How, counted: int | None) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = RAISED
        try:
            made = _break(breaks, how)
            result = work()
            status = result if isinstance(result, int) else 0  # a command's own exit code
            if counted is not None:
                os.write(counted, str(len(made)).encode())
        except WorldlineError as error:
            print(error, file=sys.stderr)
            status = REFUSED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return _ended(child)


def _ended(child: int) -> int:
    _, waited = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(waited)


def _break(breaks: Callable[[int], bool], how: How) -> list[str]:
    """Wrap these calls, so that one breaks where `breaks` says so of its number; the names of those made so far."""
    made: list[str] = []
    happened = False

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            nonlocal happened
            made.append(name)
            happened_before, happened = happened, happened or breaks(len(made) - 1)
            if happened_before or not happened:
                return None if name == "_sync" else call(*arguments, **named)
            if name == "_write":
                call(arguments[0], arguments[1][: len(arguments[1]) // 2])
                arguments[0].flush()
            if how == "killed":
                os._exit(KILLED)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return counting

    for name in CALLS:
        setattr(files, name, wrapped(name, getattr(files, name)))
    return made
