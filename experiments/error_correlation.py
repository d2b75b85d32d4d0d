"""Are the errors of `wm` on several policies of one world alike? python experiments/error_correlation.py

Of each world, the mean product of the errors of two policies, as a share of the mean square of one: what all have in
common. Reads the values of `experiments/results/kernel_parts.json` with nothing switched off (eleven worlds, ten
policies each, three fits); prints a line for each world, and the mean.
"""

import json
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import numpy as np

RESULT = Path(__file__).parent / "results" / "kernel_parts.json"


def shares(rows: list[dict[str, object]]) -> dict[str, float]:
    """Per world, the share of the errors' variance that two policies have in common."""
    products, squares = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for row in rows:
        values, truth = row["values"], row["truth"]
        if row["part"] != "full" or not isinstance(values, dict) or not isinstance(truth, dict):
            continue
        errors = np.array([values[name] - truth[name] for name in truth])
        pairs = len(errors) * (len(errors) - 1)
        products[str(row["world"])].append(float(errors.sum() ** 2 - np.square(errors).sum()) / pairs)
        squares[str(row["world"])].append(float(np.square(errors).mean()))
    return {world: fmean(products[world]) / fmean(squares[world]) for world in products}


if __name__ == "__main__":
    by_world = shares(json.loads(RESULT.read_text(encoding="utf-8"))["rows"])
    for world, share in by_world.items():
        print(f"{world:12} {share:+.2f}")
    print(f"{'mean':12} {fmean(by_world.values()):+.2f}")
