"""`worldline report`: one HTML file about an evaluation, a run, a world model or a log."""

from collections import Counter
from pathlib import Path
from typing import ClassVar

from worldline.cli.verb_result import VerbResult
from worldline.config import Config, option, positional
from worldline.report import write_report
from worldline.signals import kept


class ReportConfig(Config):
    """Write one self-contained report.html about everything a path holds.

    Evaluations come first, then training runs, world models and logs. The file opens without a network, and prints.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline report demo/",
        "worldline report runs/choice/evaluation.json --out choice.html",
        "worldline report runs/choice --out choice.svg",
    )

    path: Path = positional(help="an evaluation, a run, a world model, a log, or a folder of these")
    out: Path | None = option(
        None, help="the file: .html, or .svg for the evaluation's plot; default: report.html in PATH"
    )
    overwrite: bool = option(False, help="replace the file if it is there")


Settings = ReportConfig


def run(settings: ReportConfig) -> VerbResult:
    with kept(lambda: "no report was written"):
        report = write_report(settings.path, settings.out, overwrite=settings.overwrite)
    data = {"report": str(report.path), "sections": list(report.sections)}
    counts = Counter(report.sections).items()
    sections = ", ".join(name if count == 1 else f"{name} ({count})" for name, count in counts)
    return VerbResult(data, (f"{sections} -> {report.path}",))
