"""What tells how far off a world model is on a new policy? Its errors on loggers, or how much of the world it can say?

python experiments/world_model_error.py OUT... --result RESULT.json

Each OUT is a folder of `worldline bench worlds --out OUT --estimators wm ...`, whose parts and figures are kept there.
One row for each log: the root mean square of the errors of `wm` on the judged policies, on loggers that were left out
of its log, and on loggers as themselves, in units of return, beside the shares of held-out answers that it can give.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from worldline import store
from worldline.types import InputError

FIGURES = {"can say": "wm_possible", "can say of ends": "wm_possible_ends"}
ERRORS = ("on loggers left out", "on loggers")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", nargs="+", type=Path, help="folders of bench worlds")
    parser.add_argument("--result", type=Path, required=True, help="the JSON to write")
    options = parser.parse_args(words)
    rows = [row(part) for folder in options.out for part in sorted(folder.glob("*/part-*.json"))]
    if not rows:
        raise InputError(f"{options.out[0]}: holds no part of bench worlds: run worldline bench worlds --out there")
    result = {"command": " ".join(sys.argv), "date": f"{datetime.now(UTC):%Y-%m-%d}", "rows": rows} | summary(rows)
    options.result.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(json.dumps(summary(rows), indent=1))
    return 0


def row(part: Path) -> dict[str, Any]:
    """Of one log."""
    world, number = part.parent, part.stem.rpartition("-")[2]
    evaluation = json.loads(part.read_text(encoding="utf-8"))["evaluation"]
    figures = json.loads((world / f"wm-{number}" / "figures.json").read_text(encoding="utf-8"))["figures"]
    judged = [(policy["estimates"]["wm"], policy["truth"]) for policy in evaluation["policies"]]
    meta, log = evaluation["meta"], world / ("log" if number == "0" else f"log-{number}")
    returns = [t.episode_return for folder in sorted(log.iterdir()) if folder.is_dir() for t in store.read(folder)]
    return {
        "world": world.name,
        "log": int(number),
        **{name: figures.get(figure, 1.0) for name, figure in FIGURES.items()},
        "standard deviation of returns": float(np.std(returns)),
        "error on new policies": _size([one["value"] - truth for one, truth in judged]),
        "on loggers left out": _size(_errors(meta["certificate"]["trials"])),
        "on loggers": _size(_errors(meta["null_test"])),
        "coverage": float(np.mean([one["low"] <= truth <= one["high"] for one, truth in judged])),
        "half width": float(np.mean([(one["high"] - one["low"]) / 2 for one, _ in judged])),
    }


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rank correlations over logs with the error on new policies, all in standard deviations of the returns."""
    scale = np.array([one["standard deviation of returns"] for one in rows])
    error = np.array([one["error on new policies"] for one in rows]) / scale
    unsaid = [1 - one["can say"] * one["can say of ends"] for one in rows]
    measured = {name: np.array([one[name] for one in rows]) / scale for name in ERRORS}
    measures = {"what it cannot say": unsaid} | measured
    return {
        "logs": len(rows),
        "rank correlation with the error": {
            name: float(spearmanr(values, error)[0]) for name, values in measures.items()
        },
        "coverage": float(np.mean([one["coverage"] for one in rows])),
        "half width in standard deviations": float(np.mean([one["half width"] for one in rows] / scale)),
        "error in standard deviations": float(error.mean()),
    }


def _errors(trials: Sequence[dict[str, Any]]) -> list[float]:
    return [one["estimates"]["wm"]["value"] - one["truth"] for one in trials if "wm" in one["estimates"]]


def _size(errors: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else float("nan")


if __name__ == "__main__":
    sys.exit(main())
