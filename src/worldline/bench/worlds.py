"""Which estimator holds in which world? Small worlds of many kinds, and the larger ones, each with ten targets.

Three policies log at most 450 episodes, each with chances of its own; ten others are judged. A part is one world with
one seed: another log and other world models, the same targets and the same truth. Parts are kept in --out and used
again.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldline import envs, files
from worldline.adwm.kernel_env import BAG, KERNEL
from worldline.bench import Figures
from worldline.bench.exact_values import exact_value
from worldline.bench.experiment import Experiment, ExperimentConfig
from worldline.bench.world_cases import DATA_SUITES, LARGE_SUITES, SMALL_CASES, TASKS
from worldline.config import Config, Folder, option, positional, suggest
from worldline.envs.small.world import SmallWorld
from worldline.evaluate import evaluate
from worldline.ope.estimation import ESTIMATORS
from worldline.types import InputError, Policy, World
from worldline.worker_pool import run_all, worker_pool

MEASURES = ("spearman", "mae", "coverage", "regret@1")
ERRORS = ("mae", "regret@1")
"""Measures in units of return: the rows have them as shares of the world's range of returns. The smaller the better."""
LARGE_TASKS, LARGE_TRUTH = 150, 4
"""Tasks and times of the larger worlds: 450 logged episodes, 600 of each target for its truth."""
WORLD_NAMES = (*SMALL_CASES, *LARGE_SUITES, *DATA_SUITES)


class WorldsBenchConfig(Config):
    """Spearman, error, coverage and regret of every estimator in many worlds; their mean over worlds, and the worst.

    Errors and regret are shares of the range of a world's returns. Another --seed is a stage that nobody has looked at.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench worlds --seeds 3 --json",
        "worldline bench worlds lake blackjack --estimators auto --out runs/worlds",
        "worldline bench worlds alfworld --data ../shared/data",
        "worldline bench worlds lake --collect-only",
    )

    worlds: tuple[str, ...] = positional(
        tuple(SMALL_CASES), help="default: the small ones; also household, shop, searchqa, alfworld, webshop"
    )
    tasks: int | None = option(None, help="tasks that each logger plays once; default: 140, larger worlds 150", ge=8)
    seeds: int = option(3, help="logs, each with its own world models", ge=1)
    estimators: tuple[str, ...] = option(("auto",), help="as in evaluate", min_length=1)
    members: int = option(3, help="ensemble size of adwm; 0: no networks, wm alone", ge=0, le=5)
    rollouts: int | None = option(None, help="imagined episodes per task; default: as in evaluate", ge=1)
    data: Path | None = option(None, help="folder of the folders alfworld and webshop; without it they are left out")
    collect_only: bool = option(False, help="make the logs and the truth, and evaluate nothing")
    jobs: int = option(os.cpu_count() or 1, help="processes that share the work", ge=1)
    engine: str = option(
        "local", help="whose processes: local, ray (of $RAY_ADDRESS, else one of its own), ray://HOST:PORT"
    )
    seed: int = option(0, help="of logs and truth: another seed is a stage that nobody has looked at")
    out: Folder = option(Path("bench-worlds"), help="folder of logs, models and parts; what is there is used again")


Settings = WorldsBenchConfig


def targets(name: str) -> dict[str, Policy]:
    """The policies that are judged in a small world, by name."""
    if name not in SMALL_CASES:
        raise InputError(f"there is no small world '{name}'{suggest(name, list(SMALL_CASES))}")
    case = SMALL_CASES[name]
    world = envs.load(case.env, None, case.options)
    return {target: script.load(world) for target, script in case.targets.items()}


def run(settings: WorldsBenchConfig) -> Figures:
    experiments = {name: experiment_of(name, settings) for name in _wanted(settings)}
    seeds = range(settings.seeds)
    for experiment in experiments.values():
        experiment.claim()
    with worker_pool(settings.jobs, settings.engine) as pool:
        run_all(pool, {f"truth of {name}": partial(_truth, name, e) for name, e in experiments.items()}, _watch)
        logs = [(name, replace(e, log_number=seed)) for name, e in experiments.items() for seed in seeds]
        run_all(pool, {f"log {e.log_number} of {name}": e.log for name, e in logs}, _watch)
        if settings.collect_only:
            return Figures(
                {"worlds": float(len(experiments))}, [_collected(name, e) for name, e in experiments.items()]
            )
        parts = {
            f"{name}, seed {e.log_number}": partial(_measure, e, settings)
            for name, e in logs
            if _kept(e, settings) is None
        }
        run_all(pool, parts, _watch)
    rows = [row for name, e in logs for row in _rows(name, e, settings)]
    return Figures(summary(rows), rows)


def _wanted(settings: WorldsBenchConfig) -> list[str]:
    """The worlds that can be played; those whose data is absent are left out, and the reason is printed."""
    names = []
    for name in dict.fromkeys(settings.worlds):
        if name not in WORLD_NAMES:
            raise InputError(f"WORLDS: there is no '{name}'{suggest(name, WORLD_NAMES)}")
        if name in DATA_SUITES and not (settings.data and (settings.data / name).is_dir()):
            place = f"no folder {settings.data / name}" if settings.data else "no --data"
            print(f"{name} is left out: it needs its data, and there is {place}", file=sys.stderr)
            continue
        names.append(name)
    if not names:
        raise InputError("WORLDS: none is left to be measured: give --data, or other worlds")
    return names


def experiment_of(name: str, settings: WorldsBenchConfig) -> Experiment:
    """The experiment of a world: truth.json and the logs `log`, `log-1`, ... are in its folder, one log a logger."""
    case = SMALL_CASES.get(name)
    suite = case.suite if case else (LARGE_SUITES | DATA_SUITES)[name]
    env = case.env if case else name
    data = settings.data / name if settings.data and name in DATA_SUITES else None
    most = envs.load(env, data, suite.options).num_tasks(suite.split)
    config = ExperimentConfig(
        tasks=min(settings.tasks or (TASKS if case else LARGE_TASKS), most),
        truth=case.truth if case else LARGE_TRUTH,
        members=settings.members,
        estimators=settings.estimators,
        rival_seeds=settings.seeds,
        refit=False,
        seed=settings.seed,
    )
    return Experiment(config, env, suite, settings.out / name.replace(" ", "-"), data, own_chances=True)


def _truth(name: str, experiment: Experiment) -> dict[str, float]:
    """The true values of the targets: exact ones where the chances can be summed, else means of played episodes."""
    case, world = SMALL_CASES.get(name), experiment.world
    if case is not None and case.exact and isinstance(world, SmallWorld):
        values = {target: exact_value(world, script) for target, script in case.targets.items()}
        files.write_json(experiment.out / "truth.json", values)
    return experiment.truth()


def _measure(experiment: Experiment, settings: WorldsBenchConfig) -> None:
    """Make one part: fit on one log, evaluate every target, keep the evaluation."""
    suite, seed, change = experiment.suite, experiment.log_number, dict[str, Any](rollouts=settings.rollouts)
    change |= {"refit": True, "refit_estimators": (KERNEL, BAG)}  # others are slow to fit again
    if set(settings.estimators) <= set(ESTIMATORS):
        change["world_model"] = None
    else:
        experiment.fit(seed)
    policies, loggers = (experiment.sources(list(names)) for names in (suite.targets, suite.loggers))
    evaluation = evaluate(experiment.evaluation(seed).model_copy(update=change), policies, loggers=loggers)
    files.write_json(_path(experiment), {"settings": _decisive(settings), "evaluation": evaluation.as_dict()})


def _path(experiment: Experiment) -> Path:
    return experiment.out / f"part-{experiment.log_number}.json"


def _decisive(settings: WorldsBenchConfig) -> dict[str, Any]:
    """What decides a part, beside the settings of the world's folder."""
    return settings.model_dump(mode="json", include={"estimators", "rollouts"})


def _kept(experiment: Experiment, settings: WorldsBenchConfig) -> dict[str, Any] | None:
    """The evaluation of a part that is done, if it was made with the same settings."""
    path = _path(experiment)
    part = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return dict(part["evaluation"]) if part.get("settings") == _decisive(settings) else None


def _rows(name: str, experiment: Experiment, settings: WorldsBenchConfig) -> list[dict[str, Any]]:
    """One row for each estimator and trivial predictor of a part."""
    evaluation = _kept(experiment, settings) or {"agreement": {}}
    width = _width(experiment.world)
    rows = []
    for estimator, agreement in evaluation["agreement"].items():
        row: dict[str, Any] = {"world": name, "held out": _held_out(name), "estimator": estimator}
        row |= {"seed": experiment.log_number, "valued": _valued(estimator, evaluation["policies"])}
        for measure in MEASURES:
            value = agreement[measure]
            row[measure] = value / width if measure in ERRORS and value is not None else value
        rows.append(row)
    return rows


def _valued(estimator: str, policies: Sequence[Mapping[str, Any]]) -> int:
    """How many targets have a value: agreement is over these, and an estimator may refuse the hard ones."""
    values = [(p["estimates"].get(estimator) or {}).get("value", p["predictors"].get(estimator)) for p in policies]
    return sum(value is not None for value in values)


def _held_out(name: str) -> bool:
    return name in SMALL_CASES and SMALL_CASES[name].held_out


def _width(world: World) -> float:
    """The highest less the lowest return of an episode."""
    low, high = world.return_range if isinstance(world, SmallWorld) else (0.0, world.max_return)
    return high - low


def _collected(name: str, experiment: Experiment) -> dict[str, Any]:
    truth = experiment.truth().values()
    return {
        "world": name,
        "held out": _held_out(name),
        "logs": str(experiment.out / "log*" / "*"),
        "lowest truth": min(truth),
        "highest truth": max(truth),
        "range of returns": _width(experiment.world),
    }


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of every estimator, the mean over worlds and its worst world; a world counts by the mean over its seeds."""
    figures: dict[str, float] = {}
    for estimator in dict.fromkeys(row["estimator"] for row in rows):
        own = [row for row in rows if row["estimator"] == estimator]
        for measure in MEASURES:
            by_world: dict[str, list[float]] = {}
            for row in own:
                if row[measure] is not None:
                    by_world.setdefault(row["world"], []).append(row[measure])
            means = [float(np.mean(values)) for values in by_world.values()]
            if means:
                worst = max(means) if measure in ERRORS else min(means)
                figures[f"{estimator}: {measure}, mean"] = float(np.mean(means))
                figures[f"{estimator}: {measure}, worst"] = worst
    return figures


def _watch(done: int, total: int, name: str) -> None:
    print(f"{done}/{total} {name}", file=sys.stderr, flush=True)
