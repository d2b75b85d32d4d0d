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

from worldline.bench import Figures
from worldline.bench.cast import CASTS
from worldline.bench.stage import Crew, Stage, StageConfig, Work
from worldline.config import Folder, option, positional
from worldline.evaluate.evaluation import judge

MEASURES = ("spearman", "kendall", "pairwise", "regret@1", "mae", "rmse", "coverage")
WORLD_MODELS = ("adwm", "am-dr", "adwm-paper", "wm-ar", "wm-joint", "wm-knn", "wm-text")


class Settings(StageConfig):
    """Spearman, error and coverage of every estimator on ten policies whose true value is known.

    Three other policies log 171 tasks each; the truth is 3 x 171 episodes of each target at the same tasks.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench rank household --seeds 3 --json",
        "worldline bench rank shop --out runs/rank",
    )

    env: Literal["household", "shop", "searchqa"] = positional(help="household, shop or searchqa")
    seeds: int = option(3, help="world models, each from another seed", ge=1)
    out: Folder = option(Path("bench-rank"), help="folder of models, logs and tables; what is there is used again")


def stage_of(settings: Settings) -> Stage:
    return Stage(settings, settings.env, CASTS[settings.env], settings.out / settings.env)


def run(settings: Settings) -> Figures:
    stage, seeds = stage_of(settings), range(settings.seeds)
    missing = [seed for seed in seeds if _table(stage, seed) is None]
    with Crew(stage) as crew:
        crew.do([Work("play", name) for name in (*stage.cast.loggers, *stage.cast.targets)], _tell)
        truth = stage.truth()
        crew.do(stage.fits(missing), _tell)
        crew.do([work for seed in missing for work in stage.questions(seed)], _tell)
    for seed in missing:
        told = judge(stage.case(seed), stage.estimators(seed)).as_dict()
        kept = {"asked": _asked(stage, seed), "evaluation": told}
        _path(stage, seed).write_text(json.dumps(kept, allow_nan=False), encoding="utf-8")
    return summary([found for seed in seeds if (found := _table(stage, seed)) is not None], truth)


def _path(stage: Stage, seed: int) -> Path:
    return stage.out / f"evaluation-{seed}.json"


def _asked(stage: Stage, seed: int) -> list[object]:
    return [list(stage.asked(seed)), stage.config.certificate, stage.config.refit]


def _table(stage: Stage, seed: int) -> dict[str, Any] | None:
    """The evaluation of an earlier run, if it was asked the same."""
    path = _path(stage, seed)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return dict(kept["evaluation"]) if kept.get("asked") == _asked(stage, seed) else None


def _tell(done: int, of: int, work: Work) -> None:
    print(f"{done}/{of} {work}", file=sys.stderr, flush=True)


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
        there = [table["agreement"][name] for table in tables if name in table["agreement"]]
        row["spearman by seed"] = [found["spearman"] for found in there]
        row["mae by seed"] = [found["mae"] for found in there]
        rows.append(row)
    figures = {"seeds": float(len(tables)), "lowest truth": min(truth.values()), "highest truth": max(truth.values())}
    for row in rows:
        if row["estimator"] in WORLD_MODELS:
            figures |= {
                f"{row['estimator']} {m}": row[m] for m in ("spearman", "mae", "coverage") if row[m] is not None
            }
    return Figures(figures, rows)
