"""One JSON of everything that `adwm_real.py` measured in an environment, and the tables that are made of it.

python experiments/adwm_tables.py RESULT.json ... prints them again, in Markdown.
"""

import datetime
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from adwm_agents import settings
from adwm_parts import CLASSICAL, KERNEL, NETWORKS, Parts

from worldline import files
from worldline.ope.agreement import spearman

MARKS = {"spearman": 0.85, "mae": 0.08, "coverage": 0.85, "regret@1": 0.05}
SMALL = ("mae", "regret@1")
"""What is recommended must reach these; those that are SMALL, at most."""
PAPER = {
    "alfworld": ("ALFWorld-1 .67 / .482, ALFWorld-3 .87 / .688"),
    "webshop": ".82 to .90 / .408",
    "searchqa": "HotpotQA .90 / .336",
    "scienceworld": ".82 / .460",
}
"""The paper's ADWM: Spearman / mean absolute error (its table 6)."""
Row = Sequence[object]


def figures(parts: Parts, result: Path) -> str:
    """Write `result` from the results of the parts; the tables."""
    content = gathered(parts)
    files.write_json(result, files.finite(content))
    return section(json.loads(result.read_text(encoding="utf-8")))


def gathered(parts: Parts) -> dict[str, Any]:
    """What is kept of all parts that are done."""
    done = {name: parts.result(name) for name in (*parts.names, "timing") if parts.path(name).exists()}
    of = {kind: {n.partition(".")[2]: r for n, r in done.items() if n.partition(".")[0] == kind} for kind in
          ("log", "truth", "fit", "score", "refit", "imagine", "evaluate")}  # fmt: skip
    played = ("value", "error", "success", "episodes", "length", "invalid", "playing_seconds")
    imagined: dict[str, dict[str, Any]] = {}
    for name, result in of["imagine"].items():
        whom, _, model = name.rpartition(".")
        imagined.setdefault(model, {})[whom] = result["imagined"]
    return {
        "command": f"python experiments/adwm_real.py run {parts.given.env} --data DATA --model MODEL --out OUT",
        "date": datetime.date.today().isoformat(),
        "env": parts.given.env,
        "devices": sorted({result["device"] for result in done.values()}),
        "plan": settings(parts.plan),
        "missing": [name for name in parts.names if name not in done],
        "seconds": {name: result["seconds"] for name, result in done.items()},
        "log": {name: {each: result[each] for each in played} for name, result in of["log"].items()},
        "truth": {name: {each: result[each] for each in played} for name, result in of["truth"].items()},
        "fits": of["fit"],
        "loggers_scored": {name: result for name, result in of["score"].items() if name in parts.plan.loggers},
        "refits": of["refit"],
        "imagined": imagined,
        "best_logged": next((result["best_logged"] for result in of["evaluate"].values()), None),
        "evaluations": {model: trimmed(result["evaluation"]) for model, result in of["evaluate"].items()},
        "cell": whole_cell(parts, done),
        "timing": done.get("timing"),
    }


def whole_cell(parts: Parts, done: Mapping[str, Any]) -> dict[str, Any]:
    """One policy at five shares of chance: the truth, the baselines, what was imagined."""
    truth = [done.get(f"truth.{parts.plan.at(epsilon)}", {}).get("value") for epsilon in parts.plan.epsilons]
    both = {name: done.get(name, {}) for name in ("baselines", "cell")}
    return {
        **both["cell"],
        "policy": parts.plan.swept,
        "epsilons": list(parts.plan.epsilons),
        "truth": truth,
        "values": both["baselines"].get("values", {}) | both["cell"].get("values", {}),
    }


def trimmed(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation without what can be computed from the rest."""
    meta = evaluation["meta"]
    policies = [
        {
            "name": policy["name"],
            "truth": policy.get("truth"),
            "estimates": policy["estimates"],
            "predictors": policy["predictors"],
        }
        for policy in evaluation["policies"]
    ]
    kept = {name: evaluation.get(name) for name in ("agreement", "recommended", "warnings")}
    kept |= {"policies": policies, "no_recommendation": meta.get("no_recommendation")}
    return kept | {"certificate": meta["certificate"]["record"], "null_test": meta["null_test"]}


def section(content: Mapping[str, Any]) -> str:
    """All tables of one environment."""
    titles = {"Agents": agents, "Estimators": estimators, "What is recommended": marks}
    if CLASSICAL in content["evaluations"]:
        titles |= {"Without a world model": without_a_world_model}
    titles |= {"The paper's protocol": protocol, "Cost": cost, "Imagined successes that are real": consistency}
    return "\n\n".join(f"**{title}**\n\n{table(content)}" for title, table in titles.items())


def agents(content: Mapping[str, Any]) -> str:
    """Truth beside what is recommended and what each seed's `wm` says."""
    evaluations = kernel_evaluations(content)
    rows: list[Row] = []
    for name, played in content["truth"].items():
        row: list[object] = [name, f"{played['value']:.3f} ± {played['error'] or 0:.3f}"]
        for evaluation in evaluations.values():
            estimate = next((p["estimates"] for p in evaluation["policies"] if p["name"] == name), None)
            row.append(_interval(estimate["wm"]) if estimate else "-")
        rows.append(row)
    for name, played in content["log"].items():
        value = f"{played['value']:.3f} ± {played['error'] or 0:.3f}"
        rows.append([f"{name} (logger)", value, *["-"] * len(evaluations)])
    return markdown(["agent", "truth", *(f"`wm`, seed {seed}" for seed in evaluations)], rows)


def kernel_evaluations(content: Mapping[str, Any]) -> dict[str, Any]:
    """By seed."""
    return {model: each for model, each in content["evaluations"].items() if model not in (NETWORKS, CLASSICAL)}


def estimators(content: Mapping[str, Any]) -> str:
    """Agreement with the truth, in the mean over the seeds that have it; the best first."""
    measured: dict[str, list[Mapping[str, Any]]] = {}
    for model, evaluation in content["evaluations"].items():
        for name, agreement in evaluation["agreement"].items() if model != CLASSICAL else ():
            measured.setdefault(name, []).append(agreement)
    rows = {name: [_mean(each, measure) for measure in MARKS] for name, each in measured.items()}
    if content["best_logged"] is not None and kernel_evaluations(content):
        rows["best logged actions of the task"] = best_logged(content)
    order = sorted(rows, key=lambda name: (-(rows[name][0] or -1.0), rows[name][1] or 9.0))
    table = [[f"`{name}`", *map(_number, rows[name]), len(measured.get(name, ())) or 1] for name in order]
    return markdown(["estimator", "Spearman", "mean error", "coverage", "regret@1", "world models"], table)


def without_a_world_model(content: Mapping[str, Any]) -> str:
    """Agreement with the truth of all agents that were played, imagined or not."""
    evaluation = content["evaluations"][CLASSICAL]
    measures = {name: [agreement.get(each) for each in MARKS] for name, agreement in evaluation["agreement"].items()}
    order = sorted(measures, key=lambda name: (-(measures[name][0] or -1.0), measures[name][1] or 9.0))
    rows = [[f"`{name}`", *map(_number, measures[name])] for name in order]
    head = [f"estimator ({len(evaluation['policies'])} agents)", "Spearman", "mean error", "coverage", "regret@1"]
    return markdown(head, rows)


def best_logged(content: Mapping[str, Any]) -> list[float | None]:
    """The row of a trivial predictor: every agent is given the value of each task's best logged episode."""
    first = next(iter(kernel_evaluations(content).values()))
    truth = [policy["truth"] for policy in first["policies"]]
    return [None, float(np.mean(np.abs(np.array(truth) - content["best_logged"]))), None, None]


def marks(content: Mapping[str, Any]) -> str:
    """What `evaluate` recommends, by seed, and whether it is as good as it must be."""
    rows: list[Row] = []
    for seed, evaluation in kernel_evaluations(content).items():
        best = evaluation["recommended"]
        if best is None:
            rows.append([seed, f"none: {evaluation['no_recommendation']}", *["-"] * len(MARKS)])
            continue
        agreement = evaluation["agreement"][best["estimator"]]
        rows.append([seed, f"`{best['estimator']}`", *(judged(name, agreement.get(name)) for name in MARKS)])
    head = [f"{name} ({'at most' if name in SMALL else 'at least'} {mark})" for name, mark in MARKS.items()]
    return markdown(["seed", "estimator", *head], rows)


def judged(measure: str, value: float | None) -> str:
    """The value, and whether it reaches its mark."""
    if value is None:
        return "-"
    reached = value <= MARKS[measure] if measure in SMALL else value >= MARKS[measure]
    return f"{_number(value)} {'yes' if reached else '**no**'}"


def protocol(content: Mapping[str, Any]) -> str:
    """One policy, mixed with more and more chance."""
    cell = content["cell"]
    if None in cell["truth"]:
        return "not measured"
    truth = np.array(cell["truth"])
    rows: list[Row] = [["truth", *map(_number, cell["truth"]), "", "", ""]]
    for name, values in cell["values"].items():
        seconds = cell.get("imagining_seconds", {}).get(name)
        if None in values:
            rows.append([f"`{name}`", *map(_number, values), "-", "-", ""])
            continue
        rows.append([f"`{name}`", *map(_number, values), _number(spearman(np.array(values), truth)),
                     _number(float(np.abs(np.array(values) - truth).mean())),
                     "" if seconds is None else f"{seconds:.0f}"])  # fmt: skip
    falling = [-epsilon for epsilon in cell["epsilons"]]
    rows.append(["V = -epsilon", *["" for _ in falling], _number(spearman(np.array(falling), truth)), "", ""])
    head = ["", *(f"eps {epsilon:g}" for epsilon in cell["epsilons"]), "Spearman", "mean error", "seconds"]
    paper = PAPER.get(content["env"], "not in the paper")
    return f"{markdown(head, rows)}\n\nThe paper's ADWM, Spearman / mean error: {paper}."


def cost(content: Mapping[str, Any]) -> str:
    """Seconds of fitting, imagining, playing."""
    rows: list[Row] = [[f"fit, {name}", f"{fit['fit_seconds']:.0f}"] for name, fit in content["fits"].items()]
    seconds = content["cell"].get("imagining_seconds", {})
    rows += [[f"a cell of the paper, {name}", f"{value:.0f}"] for name, value in seconds.items()]
    if content["timing"] is not None:
        for attempt in content["timing"]["attempts"]:
            ratio = attempt["imagined_seconds"] / attempt["real_seconds"]
            real, imagined = f"{attempt['real_seconds']:.1f}", f"{attempt['imagined_seconds']:.1f}"
            rows.append([f"{attempt['episodes']} episodes: played, imagined", f"{real}, {imagined}: {ratio:.2f} times"])
    return markdown(["", "seconds"], rows)


def consistency(content: Mapping[str, Any]) -> str:
    """Over all targets, for each world whose episodes are kept."""
    rows: list[Row] = []
    for model, players in content["imagined"].items():
        for world in KERNEL if model != NETWORKS else content["plan"]["rivals"]:
            each = [player[world] for player in players.values() if "imagined_successes" in player.get(world, {})]
            won, real = (sum(one[name] for one in each) for name in ("imagined_successes", "real_successes"))
            if not won:  # nothing is imagined to succeed, or the episodes of this world are not kept
                continue
            rows.append([f"`{world}`, {model}", won, real, _number(real / won)])
    return markdown(["world", "imagined successes", "real when replayed", "share"], rows)


def markdown(head: Sequence[str], rows: Sequence[Row]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def _mean(each: Sequence[Mapping[str, Any]], measure: str) -> float | None:
    values = [one[measure] for one in each if one.get(measure) is not None]
    return float(np.mean(values)) if values else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(estimate: Mapping[str, Any]) -> str:
    low, high = estimate["low"], estimate["high"]
    span = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{_number(estimate['value'])}{span}"


if __name__ == "__main__":
    print("\n\n".join(section(json.loads(Path(path).read_text(encoding="utf-8"))) for path in sys.argv[1:]))
