"""Commands in processes of their own, a few at a time, until all are done or the time is up.

A command that is still at work when the time is up gets SIGTERM, which ends a verb of worldline cleanly, and counts as
not done. One that could not end in time, by the slowest so far, is not begun, unless `late` is given. A command may
wait for others to have ended, well or not, or need them: where one of these failed, it is not begun.

Commands beside each other may share a GPU: each holds no more of its memory than it uses, unless
PYTORCH_CUDA_ALLOC_CONF or PYTORCH_ALLOC_CONF is set. Three training runs of a 135 M model hold 42 GiB so, and 91 GiB
without.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from worldline.signals import sigterm_interrupts

GRACE = 20.0
"""Seconds between SIGTERM and SIGKILL."""
_SETTINGS = "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
"""Where torch reads how it takes memory; the first is its older name, which every version knows."""
_EXPANDABLE = "expandable_segments:True"


@dataclass(frozen=True)
class Task:
    """A command, the file that gets what it prints, and what to do with its exit code and its seconds."""

    name: str
    words: tuple[str, ...]
    log: Path
    ended: Callable[[int, float], bool]
    """Whether that was a proper end."""
    after: tuple[str, ...] = ()
    """Names of tasks that must have ended before, well or not."""
    needs: tuple[str, ...] = ()
    """Names of tasks that must be done before; what is not among the tasks counts as done."""


@dataclass(frozen=True)
class Ended:
    """Names of tasks by what became of them."""

    done: tuple[str, ...]
    failed: tuple[str, ...]
    left: tuple[str, ...]
    """Not begun, or stopped because the time was up."""


def play(
    tasks: Sequence[Task],
    jobs: int,
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    late: bool = False,
) -> Ended:
    """Run the tasks in order, `jobs` beside each other, for at most `seconds` of the clock.

    `late`: also begin what may not end in time.
    """
    started = clock()
    waiting, running = list(tasks), dict[Task, tuple[subprocess.Popen[bytes], float]]()
    done: list[str] = []
    failed: list[str] = []
    slowest = 0.0
    try:
        with sigterm_interrupts():
            while waiting or running:
                left = float("inf") if seconds is None else started + seconds - clock()
                if left <= 0:
                    break
                while len(running) < jobs and (late or left > slowest) and (task := _next(waiting, running, failed)):
                    waiting.remove(task)
                    running[task] = _begun(task, beside=jobs > 1), clock()
                if not running:
                    break
                time.sleep(0.05)
                for task, (process, begun) in list(running.items()):
                    if process.poll() is not None:
                        del running[task]
                        spent = clock() - begun
                        slowest = max(slowest, spent)
                        proper = task.ended(process.returncode, spent)
                        (done if proper else failed).append(task.name)
                        _say(task, spent, proper)
    finally:
        _stop([process for process, _ in running.values()])
    unfinished = [task.name for task in [*running, *waiting]]
    return Ended(tuple(done), tuple(failed), tuple(unfinished))


def _next(waiting: Sequence[Task], running: Collection[Task], failed: Sequence[str]) -> Task | None:
    """The first task that waits for none of the others and needs none that failed, or that needs one that did."""
    lost = set(failed)
    while more := {task.name for task in waiting if lost & set(task.needs)} - lost:
        lost |= more
    going = {task.name for task in (*waiting, *running)} - lost
    able = (task for task in waiting if task.name not in lost)
    return next((task for task in able if not going & {*task.after, *task.needs}), None)


def _begun(task: Task, *, beside: bool) -> subprocess.Popen[bytes]:
    task.log.parent.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ)
    if beside and not any(name in environment for name in _SETTINGS):
        environment[_SETTINGS[0]] = _EXPANDABLE
    with task.log.open("wb") as log:
        return subprocess.Popen(
            task.words, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.send_signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _say(task: Task, spent: float, proper: bool) -> None:
    line = f"{task.name}: {'done' if proper else 'failed'} after {spent:.0f} s"
    if not proper:
        last = task.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        line += f": {''.join(last)} ({task.log})"
    print(line, file=sys.stderr, flush=True)
