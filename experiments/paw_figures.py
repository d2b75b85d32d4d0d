"""The table of `paw_alfworld.py`, one JSON of all its runs, and their curves."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import curves
from paired_differences import MEASURES, Comparison, compare, measures

from worldline import files

BASES = {
    "grpo+paw": ("grpo",),
    "gigpo+paw": ("gigpo",),
    "grpo+echo": ("grpo", "grpo+paw"),
    "grpo+paw lambda=1": ("grpo", "grpo+paw"),
    "grpo+paw rho=1": ("grpo", "grpo+paw"),
}
"""What each arm is compared with."""


def figures(result: Path, env: str, rows: Sequence[Mapping[str, Any]], chosen: Mapping[str, Any]) -> None:
    """Write `result` and the curves beside it; print the table. `chosen`: how start and rate were chosen."""
    starts = sorted({row["start"] for row in rows})
    wider = [*starts, "all"] if len(starts) > 1 else starts
    compared_arms = [(start, arm, base) for arm, bases in BASES.items() for base in bases for start in wider]
    compared = [
        comparison
        for measure in MEASURES
        for start, arm, base in compared_arms
        if (comparison := compare(rows, arm, base, measure, start)) is not None
    ]
    content = {
        "command": f"python experiments/paw_alfworld.py figures {env} --out OUT --result RESULT.json",
        **chosen,
        "measures": MEASURES,
        "comparisons": [asdict(comparison) for comparison in compared],
        "pairs_with_different_starts": differently_started(rows),
        "rows": [{**row, "measures": measures(row)} for row in rows],
    }
    files.write_json(result, content)
    curves.draw(result.with_suffix(".svg"), {f"{env}, {s}": [r for r in rows if r["start"] == s] for s in starts})
    print(table(compared))


def differently_started(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Starts and seeds whose runs began with different weights: clones that were made twice may differ a little."""
    models: dict[tuple[str, int], set[str]] = {}
    for row in rows:
        models.setdefault((row["start"], row["seed"]), set()).add(row["model"])
    return [f"{start} {seed}" for (start, seed), different in sorted(models.items()) if len(different) > 1]


def table(compared: Sequence[Comparison]) -> str:
    """In Markdown, a line for each comparison."""
    head = "| measure | start | arm - base | pairs | base | arm | difference, 95 % | p (t) | p (sign flips) |"
    lines = [head, "|---|---|---|---|---|---|---|---|---|"]
    for c in compared:
        interval = "" if c.low is None or c.high is None else f" [{c.low:+.3f}, {c.high:+.3f}]"
        cells = [c.measure, c.start, f"{c.arm} - {c.base}", str(c.pairs), f"{c.base_mean:.3f}", f"{c.arm_mean:.3f}"]
        cells += [f"{c.difference:+.3f}{interval}", _p(c.p_student), _p(c.p_sign_flip)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _p(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.3f}"
