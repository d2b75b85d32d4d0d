"""What a verb gives back: data for machines, a table or a line for people.

Names, goals and actions come from logs and command lines. What is printed here shows them as they are: rich's markup
and emoji codes mean nothing in them, and a control character is written out (`\\x1b`) and cannot steer the terminal.
"""

import sys
import time
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TaskID, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories: control, format (bidirectional overrides among them), surrogate, line and paragraph separator."""
_HARMLESS = "\n\t\u200c\u200d"
"""Lines, tabs, and the joiners that Persian and emoji are written with."""


def visible(text: str) -> str:
    """`text` with control characters written out: nothing in it moves the cursor, colours or reorders the line."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _INVISIBLE and c not in _HARMLESS else c
        for c in text
    )


class PlainConsole(Console):
    """A console to which every string is data."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """Strings, titles, headers and cells all pass here."""
        return super().render_str(visible(text), **how)


class Verbatim(str):
    """A text for another program: printed as it is, at any width."""


@dataclass(frozen=True)
class VerbResult:
    """`data` is what `--json` prints; `view` is what a person sees."""

    data: dict[str, Any]
    view: tuple[RenderableType, ...]

    def show(self) -> None:
        console = PlainConsole()
        for part in self.view:
            if isinstance(part, Verbatim):
                sys.stdout.write(part)
            else:
                console.print(part)


def note(text: str) -> None:
    """A line for the person watching; never on stdout, which belongs to the result."""
    print(visible(text), file=sys.stderr)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A plain table: the first column left, numbers right."""
    drawn = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        drawn.add_row(*row)
    return drawn


class _Words(ProgressColumn):
    """A text of the task: its `description`, or one of its fields."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def render(self, task: Task) -> Text:
        return Text(visible(task.description if self._name == "description" else task.fields[self._name]))


EVERY = 15.0
"""Seconds between the lines that tell of progress where there is no terminal."""
EVERY_STAGE = 5.0
"""The same before a line that names another stage of the work."""


class _ProgressLines(Progress):
    """Progress where nobody watches a bar: now and then a line on stderr, none for work that is done at once.

    What begins after some seconds is named: it may take long to be heard of again.
    """

    def __init__(self) -> None:
        super().__init__(disable=True)
        self._written = time.monotonic()
        self._stage = ""

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        now, task = time.monotonic(), self.tasks[task_id]
        another = task.description != self._stage and now - self._written >= EVERY_STAGE
        if another or now - self._written >= EVERY:
            self._written, self._stage = now, task.description
            done = f"{task.completed:g}" + (f" of {task.total:g}" if task.total else "")
            note(f"{task.description} {done} {task.fields.get('detail', '')}".strip())


class Speed:
    """How many were done a second since the start, not counting what was there before."""

    def __init__(self) -> None:
        self._first: tuple[int, float] | None = None

    def at(self, count: int, now: float) -> float:
        """At `count` done, at `now` seconds of some clock; the first call is the start."""
        if self._first is None:
            self._first = count, now
        begun, started = self._first
        return (count - begun) / (now - started) if now > started else 0.0


def progress() -> Progress:
    """A progress bar on stderr with room for a running note (`detail`); lines now and then where it is no terminal."""
    console = PlainConsole(stderr=True)
    if not console.is_terminal:
        return _ProgressLines()
    return Progress(
        _Words("description"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        _Words("detail"),
        console=console,
    )


def line_above(bar: Progress, text: str) -> None:
    """A line that stays, above the bar where there is one; on stderr in any case."""
    if isinstance(bar, _ProgressLines):
        note(text)
    else:
        bar.console.print(text, soft_wrap=True)


def kept_checkpoints(out: Path, step: str, hint: str = "") -> str:
    """What an interrupted training leaves in `out`, for its last line; checkpoints are called `step`-NUMBER."""
    checkpoints = sorted((out / "checkpoints").glob(f"{step}-*"))
    if not checkpoints:
        return f"the first checkpoint was not reached, nothing is kept{hint}"
    return f"kept up to {checkpoints[-1]}: --resume goes on from there"
