"""Where reports come from: what a path holds (evaluations, runs, world models, logs), and how its files are read."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from worldline import files
from worldline.nearby import nearby
from worldline.types import InputError

Kind = Literal["evaluation", "comparison", "training", "world model", "log"]
ORDER: tuple[Kind, ...] = ("evaluation", "comparison", "training", "world model", "log")
DEPTH = 4
_PASSED_BY = {"checkpoints", "cache", "model", "__pycache__"}
EXPECTED = "an evaluation, a comparison, a training run, a world model, a log, or a folder of these"


@dataclass(frozen=True)
class ReportSource:
    """One thing to report on: a file (an evaluation, one shard) or a folder."""

    kind: Kind
    path: Path

    @property
    def folder(self) -> Path:
        return self.path if self.path.is_dir() else self.path.parent


def find(path: Path) -> list[ReportSource]:
    """Everything in `path` and the folders in it, evaluations first. InputError where there is nothing."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder{nearby(path)}: give {EXPECTED}")
    sources = [_file(path)] if path.is_file() else sorted(_walk(path, 0), key=lambda source: ORDER.index(source.kind))
    if not sources:
        raise InputError(f"{path}: holds nothing to report on: give {EXPECTED}")
    return sources


def read_optional(path: Path) -> dict[str, Any]:
    """A JSON object that need not be there."""
    return files.read_json_object(path) if path.is_file() else {}


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; a last line that a crash cut short is left out."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    rows = []
    for at, line in enumerate(lines):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(row)
        elif at + 1 < len(lines):
            raise InputError(f"{path}: corrupt: line {at + 1} is no JSON object")
    if not rows:
        raise InputError(f"{path}: holds no metrics yet")
    return rows


def _file(path: Path) -> ReportSource:
    if path.suffix == ".parquet":
        return ReportSource("log", path)
    if path.suffix == ".json":
        return ReportSource("comparison" if path.name.startswith("comparison") else "evaluation", path)
    if path.name == "metrics.jsonl":
        return ReportSource(_run_kind(path), path.parent)
    raise InputError(f"{path}: not a thing to report on: give {EXPECTED}")


def _walk(folder: Path, depth: int) -> list[ReportSource]:
    sources: list[ReportSource] = []
    if (folder / "evaluation.json").is_file():
        sources.append(ReportSource("evaluation", folder / "evaluation.json"))
    if (folder / "comparison.json").is_file():
        sources.append(ReportSource("comparison", folder / "comparison.json"))
    metrics = folder / "metrics.jsonl"
    run = _run_kind(metrics) if metrics.is_file() else None
    if run is None and any((folder / name).is_file() for name in ("figures.json", "horizon.json")):
        run = "world model"
    if run is not None:
        sources.append(ReportSource(run, folder))
    if any(folder.glob("*.parquet")):
        sources.append(ReportSource("log", folder))
    if depth < DEPTH:
        for inner in sorted(folder.iterdir()):
            copied = run == "world model" and inner.name == "log"  # of the log it was fitted on
            if inner.is_dir() and not inner.name.startswith(".") and inner.name not in _PASSED_BY and not copied:
                sources += _walk(inner, depth + 1)
    return sources


def _run_kind(metrics: Path) -> Kind:
    """By the first line: a world model's tells which member it is about."""
    with metrics.open(encoding="utf-8", errors="replace") as file:
        return "world model" if '"member"' in file.readline() else "training"
