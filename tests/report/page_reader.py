"""Reads a page as a browser would, with the standard library's parser: tags, text, tables."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class ReadCell:
    text: str = ""
    value: float | None = None
    classes: tuple[str, ...] = ()
    mark: str = ""


@dataclass
class PageReader(HTMLParser):
    """`tables` by title; `facts`: (value, detail) by label; `tags` with their attributes; `text` outside styles."""

    page: str
    tables: dict[str, list[list[ReadCell]]] = field(default_factory=dict)
    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self._inside = ""
        self._rows: list[list[ReadCell]] = []
        self._cell: ReadCell | None = None
        self._fact: list[str] | None = None
        self.feed(self.page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.tags.append((tag, attributes))
        if tag in ("style", "script"):
            self._inside = tag
        elif tag == "div":
            self._fact = [] if attributes.get("class") == "fact" else None
        elif tag in ("span", "b") and self._fact is not None:
            self._fact.append("")
        elif tag == "table":
            self._rows = self.tables.setdefault(attributes.get("data-title", ""), [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            value = float(attributes["data-value"]) if "data-value" in attributes else None
            self._cell = ReadCell("", value, tuple(attributes.get("class", "").split()))
            self._rows[-1].append(self._cell)
        elif tag == "small" and self._cell is not None:
            self._cell.text += " "
        elif tag == "sup":
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""
        if tag == "div" and self._fact is not None:
            label, value, detail = self._fact
            self.facts[label], self._fact = (value, detail), None
        if tag in ("td", "th"):
            self._cell = None

    def handle_data(self, data: str) -> None:
        if self._inside == "sup" and self._cell is not None:
            self._cell.mark += data
        if self._inside:
            return
        self.text += data
        if self._fact:
            self._fact[-1] += data
        if self._cell is not None:
            self._cell.text += data

    def rows(self, title: str) -> dict[str, dict[str, ReadCell]]:
        """The cells of a table by what the row is about, then by column."""
        head, *body = self.tables[title]
        return {
            row[0].text.removesuffix(" trivial"): dict(zip([c.text for c in head], row, strict=True)) for row in body
        }

    def names(self) -> set[str]:
        return {tag for tag, _ in self.tags}
