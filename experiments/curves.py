"""Draws the learning curves of a `bench train` result: python experiments/curves.py RESULT.json CURVES.svg"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

ALGORITHMS = ("grpo", "gigpo", "ppo", "rloo")


def main(source: Path, target: Path) -> None:
    """One panel per algorithm: mean success on unseen tasks over seeds, with the range of the seeds behind it."""
    curves: dict[str, list[list[float]]] = defaultdict(list)
    for row in json.loads(source.read_text(encoding="utf-8"))["rows"]:
        curves[row["variant"]].append([success for _, success in row["curve"]])
        updates = [update for update, _ in row["curve"]]
    shown = [name for name in ALGORITHMS if name in curves]
    figure, panels = plt.subplots(1, len(shown), figsize=(2.6 * len(shown), 2.4), sharey=True)
    for name, panel in zip(shown, np.atleast_1d(panels), strict=True):
        for variant, colour in ((name, "0.45"), (f"{name}+paw", "tab:blue")):
            values = np.array(curves[variant])
            panel.fill_between(updates, values.min(0), values.max(0), color=colour, alpha=0.15, linewidth=0)
            panel.plot(updates, values.mean(0), color=colour, label=variant)
        panel.set(title=name, xlabel="update")
        panel.legend(frameon=False, fontsize=7, loc="lower right")
    np.atleast_1d(panels)[0].set_ylabel("success, unseen layouts")
    figure.tight_layout()
    figure.savefig(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
