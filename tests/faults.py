"""Breaking the product's file system calls one at a time, in a forked child: the disk is full, or the process dies.

`points(work)` counts the calls that `work` makes; `broken(work, n, how)` runs it with the n-th one broken.
"""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from worldline import files

CALLS = ("_write", "_sync", "_rename", "_delete", "_lock")
KILLED = 137
How = Literal["full", "killed"]
"""`full`: the call raises ENOSPC, after half of the data in case of a write. `killed`: the process is gone there."""


def points(work: Callable[[], Any]) -> int:
    """How many file system calls `work` makes."""
    reader, writer = os.pipe()
    status, _ = _forked(work, None, "full", writer)
    os.close(writer)
    with os.fdopen(reader) as told:
        count = told.read()
    assert status == 0, f"the undisturbed work failed with {status}"
    return int(count)


def broken(work: Callable[[], Any], number: int, how: How) -> int:
    """The exit code of `work` with its `number`-th call (from 0) broken; 70 where it raised."""
    status, _ = _forked(work, number, how, None)
    return status


def _forked(work: Callable[[], Any], number: int | None, how: How, told: int | None) -> tuple[int, int]:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 71
        try:
            counted = _break(number, how)
            status = int(work() or 0)
            if told is not None:
                os.write(told, str(len(counted)).encode())
        except BaseException:
            traceback.print_exc()
            status = 70
        finally:
            os._exit(status)
    _, waited = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(waited), child


def _break(number: int | None, how: How) -> list[str]:
    """Wrap these calls; the names of those made so far."""
    made: list[str] = []

    def wrapped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **named: Any) -> Any:
            made.append(name)
            if number is None or len(made) != number + 1:
                return call(*arguments, **named)
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
