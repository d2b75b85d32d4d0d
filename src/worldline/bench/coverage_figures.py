"""The tables of `bench coverage`: coverage, silent errors and flags; calibration; the winner; constant choices."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from worldline.bench import Figures
from worldline.ope.estimation import TARGET_INDEPENDENT

LARGE_ERROR = 0.1
"""An error beyond this, outside the interval and without a flag, is a silent one."""
BINS = ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8), (0.8, 0.9), (0.9, 1.0))
NETWORK = "fqe"
"""Dear: judged on as many logs as one can afford."""
GOOD = ("good", "several loggers")
"""Situations in which a flag is a false one."""
FEWEST = 20
"""Unflagged estimates of a cell below which it has no coverage."""
Rows = Sequence[dict[str, Any]]


def summary(rows: Rows) -> Figures:
    """All tables, each row naming its own in the column `table`."""
    logs = [row for row in rows if len(row["truth"]) < 10]
    equal = [row for row in rows if len(row["truth"]) >= 10]
    names = list(next(iter(logs[0]["estimates"].values()))) if logs else []
    names = [name for name in names if name not in TARGET_INDEPENDENT]
    estimators = [estimator_row(name, logs) for name in names]
    calibration = calibration_rows(logs)
    everywhere = [name for name in names if name != NETWORK or all(_values(row, NETWORK) for row in logs)]
    constants = constant_rows(logs, everywhere)
    figures: dict[str, float] = {"logs": float(len(logs))}
    if estimators:
        figures |= {
            "worst silent share": max(row["silent"] for row in estimators),
            "worst false flags": max(row["false flags"] for row in estimators),
            "lowest unflagged coverage": min(row["coverage"] for row in estimators),
            "lowest unflagged coverage of a cell": min(row["lowest cell"] for row in estimators),
        }
    if calibration:
        figures["worst calibration gap"] = max(abs(row["gap"]) for row in calibration)
    if constants:
        chosen, fixed = constants[0], constants[1:]
        figures |= {"recommended error": chosen["error"], "recommended regret": chosen["regret"]}
        figures |= {"best constant error": min(row["error"] for row in fixed)}
        figures |= {"best constant regret": min(row["regret"] for row in fixed)}
    figures |= winner_figures(equal)
    return Figures(figures, [*estimators, *calibration, *constants])


def _values(row: dict[str, Any], name: str) -> list[list[float]]:
    return [estimates[name] for estimates in row["estimates"].values() if name in estimates]


def estimator_row(name: str, logs: Rows) -> dict[str, Any]:
    """One estimator over all logs, and per kind and size the coverage of what is not flagged and the share that is."""
    cells: dict[str, list[tuple[bool, bool, bool]]] = {}
    by_log: dict[str, list[float]] = {}
    good: list[bool] = []
    for row in logs:
        cell, unflagged_here = f"{row['kind']}, {row['n']}", []
        for label, estimates in row["estimates"].items():
            if name not in estimates:
                continue
            value, low, high, flagged = estimates[name]
            truth = row["truth"][label]
            covered = low <= truth <= high
            silent = not covered and not flagged and abs(value - truth) > LARGE_ERROR
            cells.setdefault(cell, []).append((covered, flagged, silent))
            unflagged_here += [] if flagged else [covered]
            if row["kind"] in GOOD and row["n"] >= 200:
                good.append(flagged)
        if unflagged_here:
            by_log.setdefault(cell, []).append(float(np.mean(unflagged_here)))
    every = [outcome for outcomes in cells.values() for outcome in outcomes]
    unflagged = [covered for covered, flagged, _ in every if not flagged]
    table = {cell: _cell(outcomes) for cell, outcomes in cells.items()}
    measured = [value for value in table.values() if isinstance(value, float)]
    lowest = min((cell for cell in table if isinstance(table[cell], float)), key=lambda cell: table[cell], default="")
    return {
        "table": "estimators",
        "estimator": name,
        "silent": float(np.mean([silent for *_, silent in every])),
        "false flags": float(np.mean(good)) if good else 0.0,
        "coverage": float(np.mean(unflagged)) if unflagged else 1.0,
        "lowest cell": min(measured, default=1.0),
        "its error": _error_by_log(by_log.get(lowest, [])),
        "highest cell": max(measured, default=1.0),
    } | table


def _error_by_log(shares: Sequence[float]) -> float:
    """Standard error of a coverage: the candidates of one log are right or wrong together."""
    return float(np.std(shares, ddof=1) / np.sqrt(len(shares))) if len(shares) > 1 else 0.0


def _cell(outcomes: Sequence[tuple[bool, bool, bool]]) -> float | str:
    """Coverage of what is not flagged; where that is too little, the share that is flagged."""
    unflagged = [covered for covered, flagged, _ in outcomes if not flagged]
    if len(unflagged) >= FEWEST:
        return float(np.mean(unflagged))
    return f"{np.mean([flagged for _, flagged, _ in outcomes]):.0%} flagged"


def calibration_rows(logs: Rows) -> list[dict[str, Any]]:
    """Of the pairs stated P(a > b) within a bin, how many are right."""
    stated, right = [], []
    for row in logs:
        if row["kind"] in GOOD:
            for a, b, p in row["pairs"]:
                first, second = (a, b) if p >= 0.5 else (b, a)
                stated.append(max(p, 1 - p))
                right.append(row["truth"][first] > row["truth"][second])
    rows = []
    for low, high in BINS:
        inside = [i for i, p in enumerate(stated) if low <= p < high or (high == 1.0 and p == 1.0)]
        if inside:
            mean, share = float(np.mean([stated[i] for i in inside])), float(np.mean([right[i] for i in inside]))
            rows.append(
                {"table": "P(a > b)", "stated": f"{low:g}-{high:g}", "pairs": len(inside), "mean": mean, "right": share}
                | {"gap": share - mean}
            )
    return rows


def constant_rows(logs: Rows, names: Sequence[str]) -> list[dict[str, Any]]:
    """Mean error and policy regret of the recommendation, then of every estimator taken always."""
    chosen = [(row, row["recommended"]) for row in logs if row["recommended"] is not None]
    rows = [_choice("recommended", chosen)] if chosen else []
    return rows + [_choice(name, [(row, name) for row, _ in chosen]) for name in names] if chosen else []


def _choice(label: str, choices: Sequence[tuple[dict[str, Any], str]]) -> dict[str, Any]:
    errors, regrets = [], []
    for row, name in choices:
        values = {who: estimates.get(name, [row["behaviour"]])[0] for who, estimates in row["estimates"].items()}
        errors.append(np.mean([abs(values[who] - truth) for who, truth in row["truth"].items()]))
        regrets.append(max(row["truth"].values()) - row["truth"][max(values, key=lambda who: values[who])])
    return {
        "table": "choice of estimator",
        "estimator": label,
        "logs": len(choices),
        "error": float(np.mean(errors)),
        "regret": float(np.mean(regrets)),
    }


def winner_figures(equal: Rows) -> dict[str, float]:
    """The bias of the picked candidate's value, as estimated and as corrected."""
    if not equal:
        return {}
    naive = [row["winner"][1] - row["truth"][row["winner"][0]] for row in equal]
    corrected = [row["winner"][2] - row["truth"][row["winner"][0]] for row in equal]
    return {
        "equal candidates, logs": float(len(equal)),
        "winner's bias": float(np.mean(naive)),
        "winner's bias, corrected": float(np.mean(corrected)),
    }
