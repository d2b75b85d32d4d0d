"""From what a path holds to the page: sections are composed, the template draws them, the file appears whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from worldline import __version__, files
from worldline.notebook import html_table
from worldline.report import comparison, evaluation, log, plots, training, world_model
from worldline.report.blocks import Section
from worldline.report.source import ReportSource, find
from worldline.types import InputError

SECTIONS: dict[str, Callable[[Path], Section]] = {
    "evaluation": evaluation.section,
    "comparison": comparison.section,
    "training": training.section,
    "world model": world_model.section,
    "log": log.section,
}


@dataclass(frozen=True)
class Report:
    """The file that was written, and the kinds of its sections in their order."""

    path: Path
    sections: tuple[str, ...]

    def _repr_html_(self) -> str:
        return html_table(f"report of {', '.join(self.sections)}", ("file",), [(str(self.path),)])


def write_report(path: Path | str, out: Path | str | None = None, *, overwrite: bool = False) -> Report:
    """Report on everything `path` holds. `out`: a .html file (default: `report.html` in the folder), or an .svg
    file for the plot of the evaluation alone."""
    path = Path(path)
    sources = find(path)
    target = Path(out) if out is not None else (path if path.is_dir() else sources[0].folder) / "report.html"
    if target.is_dir() or target.suffix not in (".html", ".svg"):
        raise InputError(f"--out {target}: give a file that ends in .html, or in .svg for the evaluation's plot alone")
    if target.exists() and not overwrite:
        raise InputError(f"{target}: is there already: --overwrite replaces it")
    sections = compose(sources) if target.suffix == ".html" else []
    content = render(sections, path.resolve().name) if sections else _plot(sources, path)
    files.write(target, content)
    return Report(target, tuple(section.kind for section in sections) or ("evaluation",))


def compose(sources: Sequence[ReportSource]) -> list[Section]:
    """The sections of the sources, in their order."""
    return [SECTIONS[source.kind](source.path) for source in sources]


def render(sections: Sequence[Section], title: str, refresh: int = 0) -> str:
    """The page. Everything from files is escaped; only the figures, which are ours, are not. `refresh`: seconds after
    which it is loaded again."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return fill("report.html", sections=sections, title=title, version=__version__, now=now, refresh=refresh)


def fill(name: str, **values: Any) -> str:
    """A template of this package, filled; HTML-escaped unless it says otherwise."""
    return str(_templates().get_template(name).render(theme=plots.theme_css(), **values))


@cache
def _templates() -> Any:
    from jinja2 import DictLoader, Environment, StrictUndefined

    folder = resources.files("worldline.report") / "templates"
    sources = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith("html")}
    return Environment(
        loader=DictLoader(sources), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )


def _plot(sources: Sequence[ReportSource], path: Path) -> str:
    """The figure of the first evaluation."""
    evaluations = [source.path for source in sources if source.kind == "evaluation"]
    if not evaluations:
        raise InputError(
            f"{path}: holds no evaluation, and only an evaluation has a plot of its own: give --out X.html"
        )
    return plots.standalone(evaluation.plot(evaluations[0]))
