"""`worldline import`: logs of other tools into a store."""

import difflib
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from pydantic import model_validator

from worldline import files, logs, store
from worldline.cli.verb_result import VerbResult, note, table
from worldline.config import Folder, option, positional
from worldline.logs import BadRow, Options
from worldline.logs.source import NO_ENV, Unnamed
from worldline.signals import kept
from worldline.types import InputError, Trajectory

SHOWN = 20
"""Reasons listed, each with the first row it holds for; the rest is only counted."""
OUTCOMES = ("reward", "success", "score")
MOST_FIELDS = 100
"""Names of other fields that are looked through for a misspelt outcome."""


class ImportConfig(Options):
    """Read logs that other tools wrote into a worldline log. A file's content shows its format.

    Formats: episodes, chat (OpenAI and Anthropic messages, tau-bench), tau2, inspect, atif (Harbor: a trajectory, a
    trial's or a job's folder), verifiers, openenv, table (CSV, Parquet), jsonl (our own export). Anything else is read
    by --map FIELD=PATH: `a.b` is b inside a, `a[].b` is b of every item; docs/formats.md has every field. Bad rows are
    listed by reason; nothing is written then, unless --skip-bad leaves them out.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline import v2.jsonl v3.jsonl --env support --out logs/",
        "worldline import jobs/2026-10-01/ --out logs/",
        "worldline import runs.jsonl --map action=log[].act observation=log[].obs reward=score task_id=id --out logs/",
        "worldline import log.eval --reward accuracy --out logs/ --skip-bad",
    )

    file: tuple[Path, ...] = positional(help="files, .gz and .xz too, or folders of runs", min_length=1)
    out: Folder = option(help="folder of the log to write to")
    format: str = option(logs.AUTO, help="the format; without it the content of each file shows it")
    skip_bad: bool = option(False, help="leave bad rows out instead of stopping")
    resume: bool = option(False, help="leave out the episodes that the folder holds already")

    @model_validator(mode="before")
    @classmethod
    def _format_first(cls, values: Any) -> Any:
        """A format's name may stand before the files."""
        words = list(values.get("file") or ()) if isinstance(values, dict) else []
        if len(words) > 1 and words[0] in logs.FORMATS and not Path(words[0]).exists() and "format" not in values:
            return {**values, "format": words[0], "file": words[1:]}
        return values


Settings = ImportConfig


def run(settings: ImportConfig) -> VerbResult:
    inputs = _inputs(settings)
    bad = _BadRows()
    names: dict[str, Path] = {}
    unnamed = 0
    gaps: list[str] = []
    for path, name in inputs:
        missing = _Missing(path)
        for episode in logs.read(name, path, options=settings, on_bad=bad.at(path), unnamed=missing.unnamed):
            missing.add(episode)
            if names.setdefault(episode.id, path) != path:
                raise InputError(f"{path}: episode '{episode.id}' is in {names[episode.id]} too: import one of them")
            unnamed += episode.env == NO_ENV
        gaps += missing.lines()
    bad.report(settings)
    if not names:
        raise InputError(f"{inputs[0][0]}: holds no episode: all {bad.total} rows are bad")
    if unnamed:
        note(f"{unnamed} episodes name no environment and are kept under '{NO_ENV}': --env NAME names it")
    _note_few(gaps)
    policies: dict[str, _PolicyCount] = {}
    # Imports into one folder take turns, so that each knows what is there before it writes its first shard.
    with (
        kept(lambda: _kept(settings)),
        files.locked(settings.out / ".import.lock"),
        store.StoreWriter(settings.out, flush_every=512) as writer,
    ):
        there = writer.held(names)
        if there and not settings.resume:
            more = f" (and {len(there) - 1} more)" if len(there) > 1 else ""
            raise InputError(f"{settings.out}: holds episode '{min(there)}' already{more}: --resume leaves it out")
        for path, name in inputs:
            for episode in logs.read(name, path, options=settings, on_bad=lambda row: None):
                if episode.id not in there:
                    writer.append(episode)
                    policies.setdefault(episode.policy, _PolicyCount()).add(episode)
    return _result(settings, inputs, bad.total, policies, len(there))


class _PolicyCount:
    """What was imported of one policy."""

    def __init__(self) -> None:
        self.episodes = self.steps = 0
        self.returned = 0.0

    def add(self, episode: Trajectory) -> None:
        self.episodes += 1
        self.steps += episode.logged_steps
        self.returned += episode.episode_return


def _result(
    settings: ImportConfig,
    inputs: list[tuple[Path, str]],
    bad_rows: int,
    policies: dict[str, _PolicyCount],
    there: int,
) -> VerbResult:
    rows = [
        {"policy": name, "episodes": own.episodes, "steps": own.steps, "mean_return": own.returned / own.episodes}
        for name, own in sorted(policies.items())
    ]
    data = {
        "episodes": sum(own.episodes for own in policies.values()),
        "steps": sum(own.steps for own in policies.values()),
        "bad_rows": bad_rows,
        "there_already": there,
        "formats": {str(path): name for path, name in inputs},
        "policies": rows,
        "out": str(settings.out),
    }
    drawn = table(
        f"{inputs[0][0] if len(inputs) == 1 else f'{len(inputs)} files'} -> {settings.out}",
        ("policy", "episodes", "steps", "mean return"),
        [(str(r["policy"]), str(r["episodes"]), str(r["steps"] or "-"), _mean(r["mean_return"])) for r in rows],
    )
    already = f"{settings.out}: {there} episode{'s' if there > 1 else ''} of the import there already, left out"
    view = (drawn, already) if there and policies else (already,) if there else (drawn,)
    return VerbResult(data, view)


def _mean(value: object) -> str:
    """A mean return; nan where an episode does not say its reward."""
    return f"{value:.3f}" if isinstance(value, float) and not math.isnan(value) else "unknown"


def _inputs(settings: ImportConfig) -> list[tuple[Path, str]]:
    """Every file and its format. A format that was detected is printed."""
    inputs = []
    for path in dict.fromkeys(file for given in settings.file for file in logs.expand(given)):
        name = settings.format if settings.format != logs.AUTO else logs.format_of(path, settings)
        inputs.append((path, name))
    if settings.format == logs.AUTO:
        formats = Counter(name for _, name in inputs)
        for name, count in formats.items():
            first = next(path for path, own in inputs if own == name)
            note(f"{first}{f' and {count - 1} more' if count > 1 else ''}: read as {name}")
    return inputs


def _kept(settings: ImportConfig) -> str:
    return f"{len(store.ids(settings.out))} episodes are kept in {settings.out}: --resume leaves them out and goes on"


class _Missing:
    """What the episodes of a file do not say, and the flag that names it."""

    def __init__(self, path: Path) -> None:
        self.unnamed = Unnamed()
        self._path = path
        self._episodes = self._unrewarded = 0
        self._judged = False
        self._fields: dict[str, None] = {}

    def add(self, episode: Trajectory) -> None:
        has_return = not math.isnan(episode.episode_return)
        self._episodes += 1
        self._unrewarded += not has_return
        self._judged |= has_return or episode.success is not None or episode.score is not None
        if not self._judged and len(self._fields) < MOST_FIELDS:
            self._fields.update(dict.fromkeys(episode.meta))

    def lines(self) -> list[str]:
        lines = [
            f"{self._path}: {count} episodes name no policy and are called '{name}' after the file: --policy NAME or "
            "--map policy=FIELD names it"
            for name, count in self.unnamed.policies.items()
        ]
        if self.unnamed.tasks:
            tasks = f"{len(self.unnamed.tasks)} task{'s' if len(self.unnamed.tasks) > 1 else ''}"
            lines.append(
                f"{self._path}: {self.unnamed.tasks.total()} episodes name no task and are {tasks} by what they open "
                "with: --map task_id=FIELD names it"
            )
        if not self._judged:
            others = [field for field in self._fields if field not in OUTCOMES]
            near = {field: difflib.get_close_matches(field, others, n=1, cutoff=0.6) for field in OUTCOMES}
            slips = {field: close[0] for field, close in near.items() if close}
            have = f" (they have {', '.join(map(repr, slips.values()))})" if slips else ""
            how = " ".join(f"--map {field}={slip}" for field, slip in slips.items()) or "--map reward=FIELD names one"
            lines.append(f"{self._path}: no row has {', '.join(OUTCOMES[:-1])} or {OUTCOMES[-1]}{have}: {how}")
        elif self._unrewarded:
            lines.append(
                f"{self._path}: no reward in {self._unrewarded} of {self._episodes} episodes, so the mean return is "
                "unknown: --map reward=FIELD names one"
            )
        return lines


def _note_few(lines: list[str]) -> None:
    for line in lines[:SHOWN]:
        note(line)
    if len(lines) > SHOWN:
        note(f"... and {len(lines) - SHOWN} more such lines")


class _BadRows:
    """Bad rows by their reasons, each with the first row it holds for: however many there are, it stays small."""

    def __init__(self) -> None:
        self.total = 0
        self._first: dict[str, tuple[Path, BadRow]] = {}
        self._alike: Counter[str] = Counter()

    def at(self, path: Path) -> Callable[[BadRow], None]:
        return lambda row: self._add(path, row)

    def _add(self, path: Path, row: BadRow) -> None:
        self.total += 1
        if row.reason in self._first or len(self._first) < SHOWN:
            self._first.setdefault(row.reason, (path, row))
            self._alike[row.reason] += 1

    def report(self, settings: ImportConfig) -> None:
        """List them on stderr; raise unless they are to be left out."""
        if not self.total:
            return
        for reason, (path, row) in self._first.items():
            more = f" (and {self._alike[reason] - 1} more rows for this reason)" if self._alike[reason] > 1 else ""
            note(f"{path}: {row}{more}")
        if self.total > self._alike.total():
            note(f"... and {self.total - self._alike.total()} more bad rows for other reasons")
        if not settings.skip_bad:
            where = next(iter(self._first.values()))[0]
            rows = "1 bad row" if self.total == 1 else f"{self.total} bad rows"
            raise InputError(f"{where}: {rows}, nothing was written: --skip-bad leaves them out")
