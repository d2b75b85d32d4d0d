"""What a section is made of: a headline, facts, tables, figures, remarks, settings, transcripts."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Cell:
    """One cell. `tone`: best, doubt or faint; `mark` is the number of the table's note that says why."""

    text: str
    detail: str = ""
    tone: str = ""
    mark: str = ""
    value: float | None = None
    """The number in full, for whoever reads the page by program."""


@dataclass(frozen=True)
class Headline:
    """What the page says first, in words. `tone`: sure or doubt; `lines` say how far to trust it and what to do."""

    text: str
    tone: str
    lines: Sequence[str] = ()
    kind: ClassVar[str] = "answer"


@dataclass(frozen=True)
class Facts:
    """A few figures in large type: what, how much, and a word on it."""

    items: Sequence[tuple[str, str, str]]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    rules: Sequence[int] = ()
    """Rows that begin a new group."""
    notes: Sequence[str] = ()
    """Numbered from 1, under the table: a cell's `mark` names one."""
    kind: ClassVar[str] = "table"


class Notes:
    """The reasons of a table, numbered in the order in which its cells give them."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def mark(self, reason: str) -> str:
        """The number of a reason; empty where there is none."""
        if not reason:
            return ""
        if reason not in self.lines:
            self.lines.append(reason)
        return str(self.lines.index(reason) + 1)


@dataclass(frozen=True)
class Figure:
    title: str
    svg: str
    caption: str = ""
    kind: ClassVar[str] = "figure"


@dataclass(frozen=True)
class Remarks:
    title: str
    lines: Sequence[str]
    kind: ClassVar[str] = "remarks"


@dataclass(frozen=True)
class SettingList:
    title: str
    items: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "settings"


@dataclass(frozen=True)
class Transcript:
    """An episode to read: (who, text) lines."""

    title: str
    about: str
    goal: str
    lines: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "transcript"


Block = Headline | Facts | Table | Figure | Remarks | SettingList | Transcript


@dataclass(frozen=True)
class Section:
    """One part of a report, about one file or folder."""

    kind: str
    title: str
    where: str
    blocks: Sequence[Block] = field(default_factory=list)


def number(value: float | None) -> str:
    """A number as tables show it."""
    if value is None or math.isnan(value):
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) < 1e-9:
        return "0.000"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == int(value) and abs(value) >= 10:
        return f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.2g}"
    if 100 <= abs(value) < 1e7:
        return f"{value:,.1f}"
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e4 else f"{value:.2g}"


def figure(value: float | None, low: float | None = None, high: float | None = None, **how: str) -> Cell:
    """A number, with its interval under it."""
    span = "" if low is None or high is None else f"[{number(low)}, {number(high)}]"
    return Cell(number(value), span, value=value, **how)


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted names, in their order; what was left empty is left out."""
    items: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            items += flat(value, f"{prefix}{name}.")
        elif value not in (None, "", []):
            items.append((prefix + name, " ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return items
