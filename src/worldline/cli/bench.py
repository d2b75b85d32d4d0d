"""`worldline bench NAME`: measure, and say on what machine and at which commit."""

import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline.bench import BENCHES, Figures
from worldline.cli.verb_result import VerbResult, table
from worldline.config import Config, suggest
from worldline.signals import kept
from worldline.types import InputError

EXAMPLES = (
    "worldline bench env --steps 20000",
    "worldline bench ope --steps 10000 100000 --json",
    "worldline bench train household --seeds 5",
)


@dataclass(frozen=True)
class Bench:
    """A bench as a verb: its settings, and a run that adds where and how it was measured."""

    name: str
    Settings: type[Config]
    measure: Callable[[Config], Figures]

    def run(self, settings: Config) -> VerbResult:
        with kept(lambda: _kept(settings)):
            measured = self.measure(settings)
        data = {
            "bench": self.name,
            "command": " ".join(["worldline", *sys.argv[1:]]),
            "commit": _commit(),
            "device": _device(),
            "figures": measured.figures,
            "rows": measured.rows,
        }
        return VerbResult(data, tuple(_views(self.name, measured)))


def overview() -> str:
    """What there is to measure."""
    lines = [f"  {name:<14}{text}" for name, text in BENCHES.items()]
    usage = ["usage: worldline bench NAME [--flag value ...]", "", *lines, "", "worldline bench NAME --help"]
    return "\n".join([*usage, "", "examples:", *(f"  {example}" for example in EXAMPLES)])


def choose(words: list[str]) -> Bench:
    """The bench that the first word names."""
    if not words or words[0].startswith("-"):
        raise InputError("name a bench: " + "; ".join(f"{name}: {text}" for name, text in BENCHES.items()))
    if words[0] not in BENCHES:
        raise InputError(f"unknown bench '{words[0]}'{suggest(words[0], list(BENCHES))}")
    module = importlib.import_module(f"worldline.bench.{words[0]}")
    return Bench(words[0], module.Settings, module.run)


def _kept(settings: Config) -> str:
    """A bench that has a folder keeps what is finished there, and uses it again."""
    out = getattr(settings, "out", None)
    return f"what is finished is kept in {out}: the same command goes on" if out else "nothing is kept"


def _views(name: str, measured: Figures) -> list[Any]:
    views: list[Any] = [table(name, ("figure", "value"), [(k, _number(v)) for k, v in measured.figures.items()])]
    if measured.rows:
        shown = (key for row in measured.rows for key, value in row.items() if not isinstance(value, list))
        columns = list(dict.fromkeys(shown))  # curves are for --json
        views.append(
            table("", columns, [[_number(row.get(column, "")) for column in columns] for row in measured.rows])
        )
    return views


def _number(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def _commit() -> str | None:
    """The commit the package was run from; none for an installed wheel."""
    finished = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return finished.stdout.strip() or None


def _device() -> str:
    import os
    import platform

    import torch

    if torch.cuda.is_available():
        return str(torch.cuda.get_device_name(0))
    return f"{platform.machine()} CPU, {os.cpu_count()} cores, torch threads {torch.get_num_threads()}"
