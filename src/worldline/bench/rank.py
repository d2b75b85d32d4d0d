"""Which estimator ranks policies right? Ten policies that really differ, judged from a log of three others.

The log and the truth are made once; the world model is fitted once per seed. Classical estimators, rival world models
and trivial predictors stand in the same table. Everything is kept in --out and used again.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from worldline.adwm.fit import FitConfig, fit_episodes
from worldline.bench import Figures
from worldline.bench.cast import CASTS, Cast, ladder, played, world_of
from worldline.config import Config, option, positional
from worldline.evaluate import EvaluateConfig, Evaluation
from worldline.evaluate.case import Case
from worldline.evaluate.evaluation import judge
from worldline.evaluate.imagined import WorldModelEstimators
from worldline.types import Policy, World

MEASURES = ("spearman", "kendall", "pairwise", "regret@1", "mae", "rmse", "coverage")
WORLD_MODELS = ("adwm", "am-dr", "adwm-paper", "wm-ar", "wm-joint", "wm-knn")


class Settings(Config):
    """Spearman, error and coverage of every estimator on ten policies whose true value is known.

    Three other policies log 171 tasks each; the truth is 3 x 171 episodes of each target at the same tasks.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench rank household --seeds 3 --json",
        "worldline bench rank shop --out runs/rank",
    )

    env: Literal["household", "shop", "searchqa"] = positional(help="household, shop or searchqa")
    seeds: int = option(3, help="world models, each from another seed", ge=1)
    tasks: int = option(171, help="tasks that every logger plays", ge=8)
    truth: int = option(3, help="times each target plays every task for its true value", ge=1)
    rollouts: int = option(2, help="imagined episodes per task", ge=1)
    members: int = option(3, help="ensemble size", ge=1, le=5)
    estimators: tuple[str, ...] = option(("auto",), help="as in evaluate")
    certificate: bool = option(True, help="also what the log's own policies say of each estimator")
    seed: int = option(0, help="of the log and the truth")
    out: Path = option(Path("bench-rank"), help="folder of models, logs and tables; what is there is used again")


def run(settings: Settings) -> Figures:
    world, cast, out = world_of(settings.env), CASTS[settings.env], settings.out / settings.env
    rungs = ladder(cast, settings.env, out, settings.seed)
    loggers = {name: make(world, rungs) for name, make in cast.loggers.items()}
    targets = {name: make(world, rungs) for name, make in cast.targets.items()}
    log = _logged(settings, world, cast, loggers, out)
    truth = _truth(settings, world, cast, targets, out)
    case = Case(_evaluation_config(settings, log, out), targets, loggers, lambda what, done, total: None)
    tables = []
    for seed in range(settings.seeds):
        path = out / f"evaluation-{seed}.json"
        if not path.is_file():
            evaluation = _judged(case, settings, out / f"wm-{seed}", seed)
            path.write_text(json.dumps(evaluation.as_dict(), allow_nan=False), encoding="utf-8")
        tables.append(json.loads(path.read_text(encoding="utf-8")))
    return summary(tables, truth)


def _logged(settings: Settings, world: World, cast: Cast, loggers: dict[str, Policy], out: Path) -> list[Path]:
    """The folders of the log, one for each logger."""
    folders = [out / "log" / name for name in loggers]
    for folder, (name, policy) in zip(folders, loggers.items(), strict=True):
        played(world, policy, name, cast, folder, tasks=settings.tasks, times=1, seed=settings.seed)
    return folders


def _truth(settings: Settings, world: World, cast: Cast, targets: dict[str, Policy], out: Path) -> dict[str, float]:
    found = {}
    for name, policy in targets.items():
        folder, seed = out / "truth" / re.sub(r"\W+", "-", name), settings.seed + 1
        episodes = played(world, policy, name, cast, folder, tasks=settings.tasks, times=settings.truth, seed=seed)
        found[name] = float(np.mean([episode.episode_return for episode in episodes]))
    (out / "truth.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    return found


def _evaluation_config(settings: Settings, log: Sequence[Path], out: Path) -> EvaluateConfig:
    return EvaluateConfig(
        log=tuple(log),
        truth=out / "truth.json",
        estimators=settings.estimators,
        rollouts=settings.rollouts,
        certificate=settings.certificate,
        seed=settings.seed,
    )


def _judged(case: Case, settings: Settings, folder: Path, seed: int) -> Evaluation:
    folder.mkdir(parents=True, exist_ok=True)
    config = FitConfig(log=(folder,), out=folder, members=settings.members, seed=seed)
    ensemble = fit_episodes(case.trajectories, config).ensemble
    return judge(case, WorldModelEstimators(case, ensemble))


def summary(tables: Sequence[dict[str, Any]], truth: dict[str, float]) -> Figures:
    """The agreement of every estimator, per seed and in the mean over seeds."""
    names = list(tables[0]["agreement"])
    rows = []
    for name in names:
        row: dict[str, Any] = {"estimator": name}
        for measure in MEASURES:
            values = [table["agreement"][name][measure] for table in tables if name in table["agreement"]]
            known = [value for value in values if value is not None]
            row[measure] = float(np.mean(known)) if known else None
        row["spearman by seed"] = [table["agreement"][name]["spearman"] for table in tables]
        row["mae by seed"] = [table["agreement"][name]["mae"] for table in tables]
        rows.append(row)
    figures = {"seeds": float(len(tables)), "lowest truth": min(truth.values()), "highest truth": max(truth.values())}
    for row in rows:
        if row["estimator"] in WORLD_MODELS:
            figures |= {
                f"{row['estimator']} {m}": row[m] for m in ("spearman", "mae", "coverage") if row[m] is not None
            }
    return Figures(figures, rows)
