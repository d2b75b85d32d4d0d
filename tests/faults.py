"""Breaking the product's file system calls one at a time, in a forked child: the disk is full, or the process dies.

`points(work)` counts the calls that `work` makes; `broken(work, n, how)` runs it with the n-th one broken;
`broken_everywhere` does so for each of them. Nothing is synced in the child: it is processes that die here.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
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
    reader, writer = os.pipe()
    status = _forked(work, None, "full", writer)
    os.close(writer)
    with os.fdopen(reader) as counted:
        count = counted.read()
    assert status == 0, f"the undisturbed work failed with {status}"
    return int(count)


def broken(work: Callable[[], Any], number: int, how: How) -> int:
    """The exit code of `work` with its `number`-th call (from 0) broken: 70 if it failed with one line, 71 if with
    anything but that."""
    return _forked(work, number, how, None)


def broken_everywhere(work: Callable[[Path], Any], folder: Path, how: How) -> Iterator[Path]:
    """`work` in folders of its own, each time with the next call broken: each folder as it is left."""
    for number in range(points(lambda: work(folder / "counted"))):
        left = folder / str(number)
        assert broken(lambda left=left: work(left), number, how) == (KILLED if how == "killed" else REFUSED)
        yield left


def _forked(work: Callable[[], Any], number: int | None, how: How, counted: int | None) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = RAISED
        try:
            made = _break(number, how)
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
    _, waited = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(waited)


def _break(number: int | None, how: How) -> list[str]:
    """Wrap these calls; the names of those made so far."""
    made: list[str] = []

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            made.append(name)
            if number is None or len(made) != number + 1:
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


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every visible file below a folder, with its content."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }
