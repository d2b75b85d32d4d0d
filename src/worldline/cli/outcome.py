"""What a verb gives back: data for machines, a table or a line for people."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Outcome:
    """`data` is what `--json` prints; `view` is what a person sees."""

    data: dict[str, Any]
    view: tuple[RenderableType, ...]

    def show(self) -> None:
        console = Console()
        for part in self.view:
            console.print(part)


def note(text: str) -> None:
    """A line for the person watching; never on stdout, which belongs to the result."""
    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A plain table: the first column left, numbers right."""
    drawn = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def progress() -> Progress:
    """A progress bar on stderr with room for a running note (`detail`); none where nobody watches."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[detail]}"),
        console=console,
        disable=not console.is_terminal,
    )
