"""Which estimator ranks policies right? Ten policies that really differ, judged from a log of three others.

The log and the truth are made once; the world model is fitted once per seed. Classical estimators, rival world models
and trivial predictors stand in the same table. Everything is kept in --out and used again.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from worldline import files
from worldline.bench import Figures
from worldline.bench.experiment import Experiment, ExperimentConfig
from worldline.bench.policy_suite import SUITES, Checkpoint
from worldline.config import Folder, option, positional
from worldline.evaluate import evaluate
from worldline.worker_pool import run_all, worker_pool

MEASURES = ("spearman", "kendall", "pairwise", "regret@1", "mae", "rmse", "coverage")
WORLD_MODELS = ("adwm", "am-dr", "adwm-paper", "wm-ar", "wm-joint", "wm-knn", "wm-text")


class RankBenchConfig(ExperimentConfig):
    """Spearman, error and coverage of every estimator on ten policies, against their true values.

    Three other policies log 171 tasks each; the truth is 3 x 171 episodes of each target at the same tasks.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench rank household --seeds 3 --json",
        "worldline bench rank shop --out runs/rank",
    )

    env: Literal["household", "shop", "searchqa"] = positional(help="household, shop or searchqa")
    seeds: int = option(3, help="world models, each from another seed", ge=1)
    out: Folder = option(Path("bench-rank"), help="folder of models, logs and tables; what is there is used again")


Settings = RankBenchConfig


def experiment_of(settings: RankBenchConfig) -> Experiment:
    return Experiment(settings, settings.env, SUITES[settings.env], settings.out / settings.env)


def run(settings: RankBenchConfig) -> Figures:
    experiment, seeds = experiment_of(settings), range(settings.seeds)
    experiment.claim()
    suite = experiment.suite
    if any(isinstance(policy, Checkpoint) for policy in (*suite.loggers.values(), *suite.targets.values())):
        experiment.checkpoints  # noqa: B018 - the cloning run comes first, and once
    missing = [seed for seed in seeds if _earlier(experiment, seed) is None]
    with worker_pool(settings.jobs) as pool:
        run_all(pool, experiment.plays(), _watch)
        truth = experiment.truth()
        run_all(pool, experiment.fits(missing), _watch)
        run_all(pool, experiment.evaluations(missing), _watch)
    targets, loggers = (experiment.sources(list(names)) for names in (suite.targets, suite.loggers))
    for seed in missing:
        evaluation = evaluate(experiment.evaluation(seed), targets, loggers=loggers)
        kept = {"settings": _settings(experiment, seed), "evaluation": evaluation.as_dict()}
        files.write_json(_path(experiment, seed), kept)
    tables = [table for seed in seeds if (table := _earlier(experiment, seed)) is not None]
    return summary(tables, truth)


def _path(experiment: Experiment, seed: int) -> Path:
    return experiment.out / f"evaluation-{seed}.json"


def _settings(experiment: Experiment, seed: int) -> dict[str, Any]:
    """What decides the table of one seed, beside the settings of the folder."""
    config = experiment.config
    return {
        "estimators": list(experiment.estimators(seed)),
        "certificate": config.certificate,
        "refit": config.refit,
    }


def _earlier(experiment: Experiment, seed: int) -> dict[str, Any] | None:
    """The evaluation of an earlier run, if it was made with the same settings."""
    path = _path(experiment, seed)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return dict(kept["evaluation"]) if kept.get("settings") == _settings(experiment, seed) else None


def _watch(done: int, total: int, name: str) -> None:
    print(f"{done}/{total} {name}", file=sys.stderr, flush=True)


def summary(tables: Sequence[dict[str, Any]], truth: dict[str, float]) -> Figures:
    """The agreement of every estimator, per seed and in the mean over seeds."""
    names = list(tables[0]["agreement"])
    rows = []
    for name in names:
        row: dict[str, Any] = {"estimator": name}
        for measure in MEASURES:
            values = [table["agreement"][name][measure] for table in tables if name in table["agreement"]]
            numbers = [value for value in values if value is not None]
            row[measure] = float(np.mean(numbers)) if numbers else None
        measured = [table["agreement"][name] for table in tables if name in table["agreement"]]
        row["spearman by seed"] = [agreement["spearman"] for agreement in measured]
        row["mae by seed"] = [agreement["mae"] for agreement in measured]
        rows.append(row)
    figures = {"seeds": float(len(tables)), "lowest truth": min(truth.values()), "highest truth": max(truth.values())}
    for row in rows:
        if row["estimator"] in WORLD_MODELS:
            figures |= {
                f"{row['estimator']} {m}": row[m] for m in ("spearman", "mae", "coverage") if row[m] is not None
            }
    return Figures(figures, rows)
