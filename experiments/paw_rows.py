"""What is kept of a training run: its curves, its seconds, what it began with and where it ran."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldline.paw.evaluation import EvaluationConfig

CURVES = {
    "curve": "eval_success",
    "pass@4": "eval_pass@4",
    "observation_ce": "eval_observation_ce",
    "training": "success",
    "invalid": "invalid",
    "kl": "kl",
    "entropy": "entropy",
    "wm_loss": "wm_loss",
    "wm_clipped": "wm_clipped_tokens",
    "lambda": "lambda",
    "grad_norm_policy": "grad_norm_policy",
    "grad_norm_world": "grad_norm_world",
    "cosine": "grad_cosine",
}
"""Name in the row, metric."""
LOST_EVALUATIONS, LOST_ROLLOUTS = ("curve", "pass@4"), ("training",)
"""What is 0 at the evaluations, or updates, that an exploded run did not come to."""
PLACES = ("model", "out", "data")
"""Settings of a run that say where it lay: no part of what it was."""
PHASES = ("rollout", "logprob", "selection", "update", "evaluation")


def kept(folder: Path, planned: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The curves of the run in `folder`; `planned`: the settings of one that exploded, for what it lacks."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    row: dict[str, Any] = {
        name: [[line["update"], line[metric]] for line in lines if metric in line] for name, metric in CURVES.items()
    }
    if planned is not None:
        updates = range(planned["updates"] + 1)
        evaluation = EvaluationConfig(every=planned["evaluation.every"], first=planned["evaluation.first"])
        evaluated = [update for update in updates if evaluation.due(update, updates[-1])]
        for names, due in ((LOST_EVALUATIONS, evaluated), (LOST_ROLLOUTS, updates[1:])):
            for name in names:
                last = row[name][-1][0] if row[name] else -1
                row[name] += [[update, 0.0] for update in due if update > last]
    seconds = {phase: sum(line.get(f"seconds_{phase}", 0.0) for line in lines) for phase in PHASES}
    (model,) = _json(folder / "inputs.json").values()
    made = _json(folder / "env.json")
    peak = max((line["peak_gib"] for line in lines if "peak_gib" in line), default=None)
    config = {name: value for name, value in _json(folder / "config.json").items() if name not in PLACES}
    row |= {"phases": seconds, "peak_gib": peak, "model": model, "config": config}
    return row | {"devices": made["devices"], "packages": made["packages"]}


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))
