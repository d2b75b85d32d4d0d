"""`worldline export`: a log as JSON lines."""

from pathlib import Path
from typing import ClassVar

from worldline import logs, store
from worldline.cli.verb_result import VerbResult
from worldline.config import Config, option, positional
from worldline.types import InputError


class Settings(Config):
    """Write the episodes of logs as JSON lines, one episode a line; `worldline import jsonl` reads it back."""

    examples: ClassVar[tuple[str, ...]] = (
        "worldline export logs/ --out episodes.jsonl",
        "worldline export a/ b/ --out all.jsonl.gz",
    )

    log: tuple[Path, ...] = positional(help="folders of logs, or run folders")
    out: Path = option(help="the file to write; .gz and .xz compress")
    policies: tuple[str, ...] = option((), help="only these policies")
    splits: tuple[str, ...] = option((), help="only these splits")
    overwrite: bool = option(False, help="replace the file if it is there")


def run(settings: Settings) -> VerbResult:
    if settings.out.suffix == ".parquet":
        raise InputError(f"--out {settings.out}: export writes JSON lines: give a .jsonl, .jsonl.gz or .jsonl.xz file")
    if settings.out.exists() and not settings.overwrite:
        raise InputError(f"{settings.out}: is there already: --overwrite replaces it")
    for column, wanted in {"policy": settings.policies, "split": settings.splits}.items():
        _check(settings.log, column, wanted)
    episodes = store.read(settings.log, policies=settings.policies or None, splits=settings.splits or None)
    count = logs.export_jsonl(episodes, settings.out)
    return VerbResult({"episodes": count, "out": str(settings.out)}, (f"{count} episodes -> {settings.out}",))


def _check(log: tuple[Path, ...], column: str, wanted: tuple[str, ...]) -> None:
    """A filter that names what the log does not hold is a slip: an empty file would hide it."""
    names = sorted(set(store.scan(log, [column])[column].to_pylist())) if wanted else []
    for name in wanted:
        if name not in names:
            flag = "policies" if column == "policy" else "splits"
            raise InputError(f"--{flag}: no episode has the {column} '{name}': there are {', '.join(names)}")
