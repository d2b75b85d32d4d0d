"""SIGTERM ends the work as Ctrl-C does: finished episodes are flushed, worker processes end; the exit code differs.

A verb says what of its work is kept with `kept`; without it the line is plain "interrupted". What must not be done by
half, or twice, is done `uninterrupted`.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(KeyboardInterrupt):
    """SIGTERM: all that is ready for Ctrl-C is ready for it."""


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Within the block SIGTERM raises `Terminated`. Only the main thread hears signals: elsewhere nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice: the second must not break the last flush
    raise Terminated


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Within the block SIGINT and SIGTERM wait until it ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, frame: waiting.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if waiting:
            signal.raise_signal(waiting[0])


@contextmanager
def kept(sentence: Callable[[], str]) -> Iterator[None]:
    """Where the block is interrupted, `sentence` says what of its work is kept, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(sentence())
        raise


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """128 + the number of the signal, as shells count."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def line(interrupt: KeyboardInterrupt) -> str:
    """The line for the user."""
    return "; ".join(["interrupted", *getattr(interrupt, "__notes__", ())])
