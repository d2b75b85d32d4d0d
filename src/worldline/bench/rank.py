"""Which estimator ranks policies right? Ten policies that really differ, judged from a log of three others.

The log and the truth are made once; the world model is fitted once per seed. Classical estimators, rival world models
and trivial predictors stand in the same table. Everything is kept in --out and used again.
"""

import functools
import json
import multiprocessing
import os
import re
import shutil
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from worldline.adwm.ensemble import FIGURES, Ensemble
from worldline.adwm.fit import FitConfig, fit_episodes
from worldline.adwm.imagine import MANNERS
from worldline.bench import Figures
from worldline.bench.cast import CASTS, ladder, played, world_of
from worldline.config import Config, option, positional
from worldline.evaluate import EvaluateConfig
from worldline.evaluate.case import Case
from worldline.evaluate.evaluation import judge
from worldline.evaluate.imagined import CERTIFICATE, WorldModelEstimators
from worldline.evaluate.settings import DEFAULT
from worldline.types import Policy, Trajectory

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
    rival_seeds: int = option(1, help="of the seeds, how many the rival world models are measured on", ge=1)
    rival_rollouts: int = option(1, help="the same for rival world models and for the certificate", ge=1)
    members: int = option(3, help="ensemble size", ge=1, le=5)
    estimators: tuple[str, ...] = option(("auto",), help="as in evaluate")
    certificate: bool = option(True, help="also what the log's own policies say of each estimator")
    jobs: int = option(os.cpu_count() or 1, help="processes that share the work", ge=1)
    seed: int = option(0, help="of the log and the truth")
    out: Path = option(Path("bench-rank"), help="folder of models, logs and tables; what is there is used again")


def run(settings: Settings) -> Figures:
    stage = Stage(settings)
    stage.rungs  # noqa: B018 - the cloning run comes first, and once
    in_parallel(settings, [Work("play", name) for name in (*stage.cast.loggers, *stage.cast.targets)])
    in_parallel(settings, [Work("fit", seed=seed) for seed in range(settings.seeds)])
    truth = stage.truth()
    done = [seed for seed in range(settings.seeds) if stage.evaluation(seed).is_file()]
    seeds = [seed for seed in range(settings.seeds) if seed not in done]
    if seeds:
        in_parallel(settings, [work for seed in seeds for work in stage.questions(seed)])
    for seed in seeds:
        told = judge(stage.case(seed), stage.estimators(seed)).as_dict()
        stage.evaluation(seed).write_text(json.dumps(told, allow_nan=False), encoding="utf-8")
    tables = [json.loads(stage.evaluation(seed).read_text(encoding="utf-8")) for seed in range(settings.seeds)]
    return summary(tables, truth)


@dataclass(frozen=True)
class Work:
    """Something that can be done beside other things, and leaves its result on disk."""

    kind: Literal["play", "score", "fit", "imagine", "certify"]
    name: str = ""
    seed: int = 0
    manner: str = ""


class Stage:
    """Everything that a ranking needs: made when first asked for, kept in the bench's folder."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.cast, self.out = settings, CASTS[settings.env], settings.out / settings.env
        self.world = world_of(settings.env)

    @functools.cached_property
    def rungs(self) -> list[Path]:
        return ladder(self.cast, self.settings.env, self.out, self.settings.seed)

    @functools.cached_property
    def loggers(self) -> dict[str, Policy]:
        return {name: make(self.world, self.rungs) for name, make in self.cast.loggers.items()}

    @functools.cached_property
    def targets(self) -> dict[str, Policy]:
        return {name: make(self.world, self.rungs) for name, make in self.cast.targets.items()}

    def evaluation(self, seed: int) -> Path:
        return self.out / f"evaluation-{seed}.json"

    def play(self, name: str) -> list[Trajectory]:
        """A logger's part of the log, or a target's episodes for its truth."""
        logger = name in self.cast.loggers
        policy = self.loggers[name] if logger else self.targets[name]
        folder = self.out / ("log" if logger else "truth") / re.sub(r"\W+", "-", name)
        times, seed = (1, self.settings.seed) if logger else (self.settings.truth, self.settings.seed + 1)
        return played(self.world, policy, name, self.cast, folder, tasks=self.settings.tasks, times=times, seed=seed)

    def truth(self) -> dict[str, float]:
        found = {name: float(np.mean([t.episode_return for t in self.play(name)])) for name in self.cast.targets}
        (self.out / "truth.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return found

    def fit(self, seed: int) -> Ensemble:
        folder = self.out / f"wm-{seed}"
        if (folder / FIGURES).is_file():
            return Ensemble.load(folder)
        folder.mkdir(parents=True, exist_ok=True)
        episodes = [episode for name in self.cast.loggers for episode in self.play(name)]
        return fit_episodes(
            episodes, FitConfig(log=(folder,), out=folder, members=self.settings.members, seed=seed)
        ).ensemble

    @functools.cache  # noqa: B019 - a stage lives as long as its process
    def case(self, seed: int) -> Case:
        settings = self.settings
        config = EvaluateConfig(
            log=tuple(self.out / "log" / name for name in self.cast.loggers),
            truth=self.out / "truth.json",
            estimators=self.asked(seed),
            rollouts=settings.rollouts,
            rival_rollouts=settings.rival_rollouts,
            certificate=settings.certificate,
            seed=settings.seed,
        )
        return Case(config, self.targets, self.loggers, lambda what, done, total: None, keep=self.out / "scores")

    @functools.cache  # noqa: B019
    def estimators(self, seed: int) -> WorldModelEstimators:
        kept = [self.out / f"wm-{n}" / "imagined" for n in (seed, 0)]
        if not (kept[0] / CERTIFICATE).is_file() and (kept[1] / CERTIFICATE).is_file():
            # the certificate is about the log: one seed of it will do
            kept[0].mkdir(parents=True, exist_ok=True)
            shutil.copy(kept[1] / CERTIFICATE, kept[0] / CERTIFICATE)
        return WorldModelEstimators(self.case(seed), self.fit(seed), keep=kept[0])

    def asked(self, seed: int) -> tuple[str, ...]:
        """The estimators of one seed: rivals are slow and not what the seeds are about."""
        rivals = seed < self.settings.rival_seeds
        return self.settings.estimators if rivals else (*DEFAULT, "adwm", "am-dr")

    def questions(self, seed: int) -> list[Work]:
        """All that an evaluation will ask, one by one."""
        scores = [Work("score", name) for name in (*self.cast.loggers, *self.cast.targets)] if seed == 0 else []
        names = [name for name in MANNERS if name in self.asked(seed) or "auto" in self.asked(seed)]
        players = (*self.cast.targets, *(self.cast.loggers if self.settings.certificate else ()))
        imagined = [Work("imagine", player, seed, name) for name in names for player in players]
        certificate = [Work("certify", seed=seed)] if self.settings.certificate and seed == 0 else []
        return [*certificate, *scores, *imagined]

    def do(self, work: Work) -> None:
        if work.kind == "play":
            self.play(work.name)
        elif work.kind == "fit":
            self.fit(work.seed)
        elif work.kind == "score":
            self.case(0).score(work.name)
        elif work.kind == "imagine":
            self.estimators(work.seed).answer(work.name, work.manner)
        else:
            self.estimators(work.seed).leave_out(["adwm"])


_stage: Stage


def _begin(settings: Settings) -> None:
    import torch

    global _stage
    torch.set_num_threads(1)
    _stage = Stage(settings)


def _do(work: Work) -> Work:
    _stage.do(work)
    return work


def in_parallel(settings: Settings, work: Sequence[Work]) -> None:
    """Do all of it in `settings.jobs` processes; one line of progress for each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(settings.jobs, context, _begin, (settings,)) as pool:
        for done, finished in enumerate(pool.map(_do, work), 1):
            print(f"{done}/{len(work)} {finished}", file=sys.stderr, flush=True)


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
