"""The card of a log or a world model: a README.md with the metadata that the hub reads, made from the folder alone."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from worldline import store
from worldline.types import InputError

_COLUMNS = ("env", "env_version", "task_id", "split", "policy", "epsilon", "return", "length", "success")
_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_LARGEST = "1M<n<10M"
FIGURES = "figures.json"


@dataclass
class _PolicyTotals:
    """The episodes of one policy at one epsilon; `judged` are those that say whether they succeeded."""

    episodes: int = 0
    returned: float = 0.0
    judged: int = 0
    successes: int = 0

    @property
    def success_rate(self) -> float | None:
        return self.successes / self.judged if self.judged else None


@dataclass
class _LogTotals:
    """Counts of a log's episodes, added row by row."""

    episodes: int = 0
    steps: int = 0
    tasks: set[str] = field(default_factory=set)
    environments: Counter[str] = field(default_factory=Counter)
    splits: Counter[str] = field(default_factory=Counter)
    policies: dict[tuple[str, float], _PolicyTotals] = field(default_factory=lambda: defaultdict(_PolicyTotals))

    def add(self, row: dict[str, Any]) -> None:
        self.episodes += 1
        self.steps += row["length"]
        self.tasks.add(row["task_id"])
        self.environments[f"{row['env']} {row['env_version']}".strip()] += 1
        self.splits[row["split"]] += 1
        own = self.policies[row["policy"], row["epsilon"]]
        own.episodes += 1
        own.returned += row["return"]
        own.judged += row["success"] is not None
        own.successes += bool(row["success"])


def log_card(folder: Path, name: str, licence: str | None) -> str:
    """Of a log: size, environments, and what each policy returned."""
    totals = _LogTotals()
    for batch in store.batches(folder, _COLUMNS):
        for row in batch.to_pylist():
            totals.add(row)
    size = next((label for bound, label in _SIZES if totals.episodes < bound), _LARGEST)
    metadata: dict[str, Any] = {
        "pretty_name": name,
        "tags": ["worldline", "trajectories", "agents"],
        "size_categories": [size],
    }
    metadata |= {"configs": [{"config_name": "default", "data_files": "log/*.parquet"}]}
    rows = [
        (policy, f"{epsilon:g}", f"{own.episodes:,}", f"{own.returned / own.episodes:.4g}", _number(own.success_rate))
        for (policy, epsilon), own in sorted(totals.policies.items())
    ]
    lines = [
        f"# {_inline(name)}",
        "",
        "Episodes of agents, logged by `worldline`: one row an episode, its steps inside it.",
        "",
        f"- {totals.episodes:,} episodes, {totals.steps:,} steps, {len(totals.tasks):,} tasks",
        f"- Environments: {_counts(totals.environments)}",
        f"- Splits: {_counts(totals.splits)}",
        _licence(licence),
        "",
        *_table(("policy", "epsilon", "episodes", "mean return", "success"), rows),
        "",
        "```",
        f"worldline pull {name} logs/",
        f'datasets.load_dataset("{name}", split="train")',
        "```",
    ]
    return _card(metadata, licence, lines)


def model_card(folder: Path, name: str, licence: str | None) -> str:
    """Of a world model: what its log was, and what was measured on held-out tasks."""
    path = folder / FIGURES
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        figures, notes = dict(content["figures"]), [str(note) for note in content["notes"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{path}: has no figures of a finished world model: worldline fit --resume goes on") from None
    log = store.scan(folder / "log", ["env", "policy", "length"])
    metadata: dict[str, Any] = {
        "library_name": "worldline",
        "tags": ["worldline", "world-model", "off-policy-evaluation"],
    }
    lines = [
        f"# {_inline(name)}",
        "",
        "A world model of logged episodes, fitted by `worldline fit`. It values agents without running them.",
        "The texts of its log are in it.",
        "",
        f"- Its log: {len(log):,} episodes, {sum(log['length'].to_pylist()):,} steps",
        f"- Environments: {_counts(Counter(log['env'].to_pylist()))}",
        f"- Policies: {_counts(Counter(log['policy'].to_pylist()))}",
        f"- Networks: {len(list(folder.glob('member-*')))}",
        *(f"- {_inline(note)}" for note in notes),
        _licence(licence),
        "",
        *_table(
            ("measured on held-out tasks", ""), [(key.replace("_", " "), _number(figures[key])) for key in figures]
        ),
        "",
        "```",
        f"worldline pull {name} wm/",
        "worldline evaluate --log logs/ --world-model wm/ --policy NAME=hf:PATH",
        "```",
    ]
    return _card(metadata, licence, lines)


def _card(metadata: Mapping[str, Any], licence: str | None, lines: Sequence[str]) -> str:
    given = dict(metadata) | ({"license": licence} if licence else {})
    head = yaml.safe_dump(given, sort_keys=False, allow_unicode=True).strip()
    return "\n".join(["---", head, "---", "", *lines]) + "\n"


def _licence(licence: str | None) -> str:
    return f"- Licence: {_inline(licence)}" if licence else "- Licence: none given: ask its owner before you use it"


def _counts(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{_inline(name)} ({count:,})" for name, count in sorted(counted.items()))


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "unknown"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_row(heads), "|" + "---|" * len(heads), *(_row([_inline(cell) for cell in row]) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _inline(text: str) -> str:
    """A name from a log as one line of plain text: nothing in it is Markdown or HTML."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in plain)
