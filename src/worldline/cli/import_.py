"""`worldline import`: logs of other tools into a store."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

from worldline import files, logs, store
from worldline.cli.verb_result import VerbResult, note, table
from worldline.config import Folder, option, positional
from worldline.logs import BadRow, Options
from worldline.signals import kept
from worldline.types import InputError, Trajectory

SHOWN = 20
"""Reasons listed, each with the first row it holds for; the rest is only counted."""


class Settings(Options):
    """Read a log that another tool wrote into a worldline log.

    FORMAT is `episodes` (one JSON object per episode), `chat` (OpenAI-style messages, tau-bench's results), `inspect`
    (Inspect .eval and JSON logs) or `jsonl` (what `worldline export` writes). Bad rows are listed by reason with the
    first line of each; nothing is written then, unless --skip-bad leaves them out. A row may take 64 MiB; a
    compressed file may unfold to 2 GiB, and to 200 times its size. An episode is never written into a folder twice.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline import episodes runs.jsonl.gz --out logs/",
        "worldline import chat tau_results.json --reward reward --policy gpt-4o --out logs/",
        "worldline import inspect log.eval --out logs/ --skip-bad",
    )

    format: str = positional(help="episodes, chat, inspect or jsonl")
    file: Path = positional(help="the file to read; .gz and .xz too")
    out: Folder = option(help="folder of the log to write to")
    skip_bad: bool = option(False, help="leave bad rows out instead of stopping")
    resume: bool = option(False, help="leave out the episodes that the folder holds already")


def run(settings: Settings) -> VerbResult:
    bad = _BadRows()
    names = [episode.id for episode in _episodes(settings, bad.add)]
    bad.report(settings)
    if not names:
        raise InputError(f"{settings.file}: holds no episode: all {bad.total} rows are bad")
    episodes: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    returns: Counter[str] = Counter()
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
        for episode in _episodes(settings, lambda row: None):
            if episode.id not in there:
                writer.append(episode)
                episodes[episode.policy] += 1
                steps[episode.policy] += len(episode)
                returns[episode.policy] += episode.episode_return  # type: ignore[assignment]  # adds floats too
    rows = [
        {"policy": name, "episodes": count, "steps": steps[name], "mean_return": returns[name] / count}
        for name, count in sorted(episodes.items())
    ]
    data = {"episodes": episodes.total(), "steps": steps.total(), "bad_rows": bad.total, "policies": rows}
    drawn = table(
        f"{settings.file} -> {settings.out}",
        ("policy", "episodes", "steps", "mean return"),
        [(str(r["policy"]), str(r["episodes"]), str(r["steps"]), f"{r['mean_return']:.3f}") for r in rows],
    )
    return VerbResult({**data, "out": str(settings.out)}, (drawn,))


def _kept(settings: Settings) -> str:
    return f"{len(store.ids(settings.out))} episodes are kept in {settings.out}: --resume leaves them out and goes on"


def _episodes(settings: Settings, on_bad: Callable[[BadRow], None]) -> Iterator[Trajectory]:
    return logs.read(settings.format, settings.file, options=settings, on_bad=on_bad)


class _BadRows:
    """Bad rows by their reasons, each with the first row it holds for: however many there are, it stays small."""

    def __init__(self) -> None:
        self.total = 0
        self._first: dict[str, BadRow] = {}
        self._alike: Counter[str] = Counter()

    def add(self, row: BadRow) -> None:
        self.total += 1
        if row.reason in self._first or len(self._first) < SHOWN:
            self._first.setdefault(row.reason, row)
            self._alike[row.reason] += 1

    def report(self, settings: Settings) -> None:
        """List them on stderr; raise unless they are to be left out."""
        if not self.total:
            return
        for reason, row in self._first.items():
            more = f" (and {self._alike[reason] - 1} more rows for this reason)" if self._alike[reason] > 1 else ""
            note(f"{settings.file}: {row}{more}")
        if self.total > self._alike.total():
            note(f"... and {self.total - self._alike.total()} more bad rows for other reasons")
        if not settings.skip_bad:
            raise InputError(f"{settings.file}: {self.total} bad rows, nothing was written: --skip-bad leaves them out")
