"""`worldline import`: other people's logs into a store."""

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import ClassVar

from worldline import logs, store
from worldline.cli.outcome import Outcome, note, table
from worldline.config import Folder, option, positional
from worldline.logs import BadRow, Options
from worldline.signals import kept
from worldline.types import InputError

SHOWN = 20
"""Reasons listed, each with the first row it holds for; the rest is only counted."""


class Settings(Options):
    """Read a log that another tool wrote into a worldline log.

    FORMAT is `episodes` (one JSON object per episode), `chat` (OpenAI-style messages, tau-bench's results), `inspect`
    (Inspect .eval and JSON logs) or `jsonl` (what `worldline export` writes). Bad rows are listed by reason with the
    first line of each; nothing is written then, unless --skip-bad leaves them out.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline import episodes runs.jsonl.gz --out logs/",
        "worldline import chat tau_results.json --reward reward --policy gpt-4o --out logs/",
        "worldline import inspect log.eval --out logs/ --skip-bad",
    )

    format: str = positional(help="episodes, chat, inspect or jsonl")
    file: Path = positional(help="the file to read; .gz and .xz too")
    out: Folder = option(help="folder of the log to write")
    skip_bad: bool = option(False, help="leave bad rows out instead of stopping")
    resume: bool = option(False, help="leave out the episodes that the folder holds already")


def run(settings: Settings) -> Outcome:
    bad: list[BadRow] = []
    good = sum(1 for _ in logs.read(settings.format, settings.file, options=settings, on_bad=bad.append))
    _report(bad, settings)
    if not good:
        raise InputError(f"{settings.file}: holds no episode: all {len(bad)} rows are bad")
    there = store.ids(settings.out)
    wanted = logs.read(settings.format, settings.file, options=settings, on_bad=lambda row: None)
    episodes: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    returns: Counter[str] = Counter()
    with kept(lambda: _kept(settings)), store.StoreWriter(settings.out, flush_every=512) as writer:
        for episode in wanted:
            if episode.id in there:
                if settings.resume:
                    continue
                raise InputError(f"{settings.out}: holds episode '{episode.id}' already: --resume leaves it out")
            writer.append(episode)
            episodes[episode.policy] += 1
            steps[episode.policy] += len(episode)
            returns[episode.policy] += episode.episode_return  # type: ignore[assignment]  # Counter adds floats too
    rows = [
        {"policy": name, "episodes": count, "steps": steps[name], "mean_return": returns[name] / count}
        for name, count in sorted(episodes.items())
    ]
    data = {"episodes": episodes.total(), "steps": steps.total(), "bad_rows": len(bad), "policies": rows}
    drawn = table(
        f"{settings.file} -> {settings.out}",
        ("policy", "episodes", "steps", "mean return"),
        [(str(r["policy"]), str(r["episodes"]), str(r["steps"]), f"{r['mean_return']:.3f}") for r in rows],
    )
    return Outcome({**data, "out": str(settings.out)}, (drawn,))


def _kept(settings: Settings) -> str:
    return f"{len(store.ids(settings.out))} episodes are kept in {settings.out}: --resume leaves them out and goes on"


def _report(bad: list[BadRow], settings: Settings) -> None:
    """List bad rows on stderr; raise unless they are to be left out."""
    if not bad:
        return
    alike = Counter(row.reason for row in bad)
    first = {row.reason: row for row in reversed(bad)}
    for reason, count in islice(alike.items(), SHOWN):
        more = f" (so are {count - 1} more rows)" if count > 1 else ""
        note(f"{settings.file}: {first[reason]}{more}")
    if len(alike) > SHOWN:
        note(f"... and {len(alike) - SHOWN} more kinds of bad rows")
    if not settings.skip_bad:
        raise InputError(f"{settings.file}: {len(bad)} bad rows, nothing was written: --skip-bad leaves them out")
