"""Draws the learning curves of `bench train` results: python experiments/curves.py CURVES.svg TITLE=RESULT.json ..."""

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

ALGORITHMS = ("grpo", "gigpo", "ppo", "rloo")


def draw(target: Path, results: dict[str, Sequence[Mapping[str, Any]]]) -> None:
    """One panel per result, which is its rows by title, and algorithm."""
    drawn = {title: _curves(rows) for title, rows in results.items()}
    panels = [
        (title, name) for title, curves in drawn.items() for name in ALGORITHMS if curves.keys() & _variants(name)
    ]
    figure, axes = plt.subplots(1, len(panels), figsize=(2.6 * len(panels), 2.4))
    for (title, name), axis in zip(panels, np.atleast_1d(axes), strict=True):
        _panel(axis, drawn[title], name)
        axis.set(title=f"{title}: {name}" if title else name, xlabel="update", ylim=(0, None))
    np.atleast_1d(axes)[0].set_ylabel("success, unseen tasks")
    figure.tight_layout()
    figure.savefig(target)
    plt.close(figure)


def _curves(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[list[tuple[int, float]]]]:
    curves: dict[str, list[list[tuple[int, float]]]] = defaultdict(list)
    for row in rows:
        curves[row["variant"]].append(row["curve"])
    return curves


def _variants(name: str) -> dict[str, str]:
    """The algorithm without and with a world model, and the colour of each."""
    further = {" lambda=1": "tab:green", " rho=1": "tab:purple"}
    changed = {f"{name}+paw{change}": colour for change, colour in further.items()}
    return {name: "0.45", f"{name}+paw": "tab:blue", f"{name}+echo": "tab:orange", **changed}


def _panel(axis: Any, curves: dict[str, list[list[tuple[int, float]]]], name: str) -> None:
    """Mean success over seeds, with the range of the seeds behind it."""
    for variant, colour in _variants(name).items():
        if variant not in curves:
            continue
        updates = [update for update, _ in curves[variant][0]]
        values = np.array([[success for _, success in curve] for curve in curves[variant]])
        axis.fill_between(updates, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
        axis.plot(updates, values.mean(0), color=colour, label=variant)
    axis.legend(frameon=False, fontsize=7, loc="lower right")


if __name__ == "__main__":
    named = [argument.rpartition("=") for argument in sys.argv[2:]]
    texts = {title: Path(path).read_text(encoding="utf-8") for title, _, path in named}
    draw(Path(sys.argv[1]), {title: json.loads(text)["rows"] for title, text in texts.items()})
