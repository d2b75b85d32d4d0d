"""Runs, curves and episodes written by hand, for the tests of reports."""

import json
from pathlib import Path
from typing import Any

from worldline import store
from worldline.types import Step, Trajectory

METRICS: list[dict[str, Any]] = [
    {"update": 0, "eval_success": 0.2, "eval_return": 0.2},
    {"update": 1, "success": 0.25, "reward": 0.24, "wm_loss": 2.0, "lambda": 0.4, "kl": 0.01, "entropy": 0.7,
     "seconds_rollout": 3.0, "seconds_update": 1.0, "seconds_wm": 0.5},
    {"update": 2, "success": 0.5, "reward": 0.49, "wm_loss": 1.0, "lambda": 0.3, "kl": 0.03, "entropy": 0.5,
     "seconds_rollout": 2.0, "seconds_update": 2.0, "seconds_wm": 1.0, "eval_success": 0.625, "eval_return": 0.6},
]  # packed lines read better  # fmt: skip
FIGURES = {"effective_rank": 5.4054, "hazard_auc": 0.9375, "reward_at_end_error": None}
CURVES: dict[str, dict[str, Any]] = {
    "adwm": {"latent_error": [0.1, 0.2, None], "recall_1": [0.9, 0.8, 0.7], "reward_auc": 0.8125},
    "wm-knn": {"latent_error": [0.3, 0.4, 0.5], "recall_1": [0.6, 0.5, 0.4], "reward_auc": 0.6875},
}


def write_lines(folder: Path, rows: list[dict[str, Any]], config: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_log(folder: Path, episodes: list[Trajectory], flush_every: int = 64) -> Path:
    with store.StoreWriter(folder, flush_every=flush_every) as writer:
        for episode in episodes:
            writer.append(episode)
    return folder


def episode(number: int, success: bool | None = True, policy: str = "p", **fields: Any) -> Trajectory:
    step = Step(observation=fields.pop("observation", f"room {number}"), action="look", reward=float(bool(success)))
    return Trajectory(
        id=f"e{number:05d}", env="e", task_id=f"t{number}", policy=policy, steps=(step,), terminated=True,
        success=success, **fields,
    )  # packed lines read better  # fmt: skip
