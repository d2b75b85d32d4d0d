"""`worldline export`: a log as JSON lines, as one Parquet file, or as traces for the Hugging Face Hub."""

from pathlib import Path
from typing import ClassVar, Literal

from worldline import logs, store
from worldline.cli.verb_result import VerbResult
from worldline.config import Config, option, positional
from worldline.types import InputError


class ExportConfig(Config):
    """Write the episodes of logs in another form.

    jsonl: one episode a line, which `worldline import` reads back exactly. parquet: one file with the columns of a log.
    traces: a folder with a file per episode, which the Hugging Face Hub opens in its trace viewer.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline export logs/ --out episodes.jsonl",
        "worldline export a/ b/ --out all.parquet --policies v3",
        "worldline export logs/ --format traces --out traces/",
    )

    log: tuple[Path, ...] = positional(help="folders of logs, or run folders")
    out: Path = option(help="the file to write (.jsonl, .jsonl.gz, .jsonl.xz or .parquet), or the folder of traces")
    format: Literal["auto", "jsonl", "parquet", "traces"] = option("auto", help="auto: by the name of --out")
    policies: tuple[str, ...] = option((), help="only these policies: v3 at every epsilon, v3@0.2 at this one")
    splits: tuple[str, ...] = option((), help="only these splits")
    overwrite: bool = option(False, help="replace the file if it is there")


Settings = ExportConfig
ENDINGS = {"jsonl": (".jsonl", ".jsonl.gz", ".jsonl.xz"), "parquet": (".parquet",)}
"""How the name of a file ends, by its format; traces are a folder of any other name."""


def run(settings: ExportConfig) -> VerbResult:
    form = _format(settings)
    if settings.out.exists() and not settings.overwrite and form != "traces":
        raise InputError(f"{settings.out}: is there already: --overwrite replaces it")
    store.check_unique(settings.log)
    if settings.policies:
        store.check_policies(settings.log, settings.policies)
    _check_splits(settings.log, settings.splits)
    episodes = store.read(settings.log, policies=settings.policies or None, splits=settings.splits or None)
    write = {"jsonl": logs.export_jsonl, "parquet": store.export_parquet, "traces": logs.export_traces}[form]
    count = write(episodes, settings.out)
    data = {"episodes": count, "format": form, "out": str(settings.out)}
    return VerbResult(data, (f"{count} episodes -> {settings.out} ({form})",))


def _format(settings: ExportConfig) -> str:
    """The format of the file; InputError where its name ends as those of another, or of none that is written."""
    named = next((form for form, ends in ENDINGS.items() if settings.out.name.endswith(ends)), "")
    if settings.format == "traces":
        if named:
            raise InputError(f"--out {settings.out}: ends as a file of {named}: --format traces writes a folder")
        return "traces"
    if settings.format != "auto" and not named:
        return settings.format
    if settings.format not in ("auto", named) or not named:
        ends = ENDINGS.get(settings.format, (*ENDINGS["jsonl"], *ENDINGS["parquet"]))
        other = ", or give --format traces for a folder" if settings.format == "auto" else ""
        raise InputError(f"--out {settings.out}: name a file that ends with {' or '.join(ends)}{other}")
    return named


def _check_splits(log: tuple[Path, ...], wanted: tuple[str, ...]) -> None:
    """A filter that names what the log does not hold is a slip: an empty file would hide it."""
    names = sorted(set(store.scan(log, ["split"])["split"].to_pylist())) if wanted else []
    for name in wanted:
        if name not in names:
            raise InputError(f"--splits: no episode has the split '{name}': there are {', '.join(names)}")
