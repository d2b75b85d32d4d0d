"""`worldline demo`: the whole loop on the embedded household world, with small language models trained on the spot.

collect -> fit -> evaluate -> report: read `run` from top to bottom, it is the library's tour.
"""

import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldline import envs, files
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.cli.verb_result import VerbResult, note, progress, table
from worldline.collect import collect_tasks
from worldline.config import Config, Folder, option
from worldline.evaluate import EvaluateConfig, Evaluation, evaluate
from worldline.policies import PolicyConfig, PolicySource, PolicySpec
from worldline.policies.faulty_expert import Faults
from worldline.report import write_report
from worldline.sft import SftConfig, sft
from worldline.signals import kept
from worldline.types import InputError, Trajectory
from worldline.worker_pool import run_all, worker_pool

ENV, OPTIONS, SPLIT = "household", {"level": "small"}, "unseen"
CLONING: dict[str, Any] = {"episodes": 1500, "checkpoints": 6}
ESTIMATORS = ("naive", "wis", "dr", "lfqe", "wm")
CHOOSE, WRITE = PolicyConfig(mode="choose", cache_gib=0.25), PolicyConfig(cache_gib=0.25)
SHORT_MEMORY = PolicyConfig(mode="choose", history=3, cache_gib=0.25)


class Settings(Config):
    """Clone an expert into small language models, log three of them, fit a world model on that log, judge eight others
    offline by every estimator, then play those eight for real and compare.

    Needs no network, no key, no GPU: two cores and a few minutes.
    """

    examples: ClassVar[tuple[str, ...]] = ("worldline demo", "worldline demo --tasks 171 --out my-demo --overwrite")

    out: Folder = option(Path("demo"), help="folder of the demo's models, logs and report")
    tasks: int = option(40, help="tasks that each of the three loggers plays", ge=8)
    seed: int = option(0, help="decides every random draw")
    jobs: int = option(min(2, os.cpu_count() or 1), help="processes that share the work", ge=1)
    overwrite: bool = option(False, help="start anew in a folder that holds a demo")


def loggers(checkpoints: Sequence[Path]) -> dict[str, PolicySource]:
    """The policies that make the log: two checkpoints of the clone, and an expert that often acts by chance."""
    return {
        "logger-late": PolicySpec(f"hf:{checkpoints[4]}", CHOOSE, epsilon=0.2),
        "logger-early": PolicySpec(f"hf:{checkpoints[3]}", WRITE, epsilon=0.2),
        "logger-scripted": Faults(chance=0.6),
    }


def candidates(checkpoints: Sequence[Path]) -> dict[str, PolicySource]:
    """The policies whose value we want to know: language models at two stages, and experts with faults."""
    half, trained = (f"hf:{checkpoints[number]}" for number in (2, 5))
    return {
        "1/2 trained": PolicySpec(half, CHOOSE),
        "trained": PolicySpec(trained, CHOOSE),
        "trained, short memory": PolicySpec(trained, SHORT_MEMORY),
        "expert, mostly by chance": Faults(chance=0.8),
        "expert, half by chance": Faults(chance=0.45),
        "expert that forgets": Faults(memory=2, chance=0.1),
        "expert that dawdles": Faults(again=0.5, chance=0.2),
        "expert, a little by chance": Faults(chance=0.2),
    }


def run(settings: Settings) -> VerbResult:
    _make_room(settings)
    with kept(lambda: _kept(settings)):
        return _loop(settings)


def _kept(settings: Settings) -> str:
    if not (settings.out / "clone").is_dir():
        return "nothing is kept"
    return f"{settings.out} holds half a demo, which cannot go on: --overwrite starts anew"


def _loop(settings: Settings) -> VerbResult:
    """The loop itself: collect, fit, evaluate, report."""
    started, out, seed = time.perf_counter(), settings.out, settings.seed
    with worker_pool(settings.jobs) as pool:
        note("1/5  collect: cloning the expert into a small language model, logging three policies")
        sft(SftConfig(source=ENV, options=OPTIONS, **CLONING, seed=seed, out=out / "clone"))
        checkpoints = sorted((out / "clone" / "checkpoints").iterdir())
        logging, judged = loggers(checkpoints), candidates(checkpoints)
        log: list[Trajectory] = []
        for name, policy in logging.items():  # one after the other: the log's order is part of what is reproduced
            log += pool.submit(play, name, policy, settings.tasks, 1, seed, out / "log").result()

        note("2/5  fit: a world model of that log")
        with progress() as bar:
            bar.add_task("fitting", total=None, detail="")
            fit_ensemble(log, FitSettings(members=0, seed=seed)).save(out / "world-model")

        note("3/5  evaluate: eight other policies, offline, by every estimator")
        offline = EvaluateConfig(
            log=(out / "log",),
            env=ENV,
            options=OPTIONS,
            world_model=out / "world-model",
            estimators=ESTIMATORS,
            rollouts=1,
            refit=False,
            seed=seed,
            cache=out / "cache",
        )
        _fill_cache(pool, offline, judged, logging)

        note("4/5  the truth: the same eight, played for real")
        truth = {
            name: pool.submit(play, name, policy, settings.tasks, 2, seed + 1, out / "truth")
            for name, policy in judged.items()
        }
        returns = {name: [t.episode_return for t in episodes.result()] for name, episodes in truth.items()}
    files.write_json(out / "truth.json", {name: float(np.mean(values)) for name, values in returns.items()})
    whole = offline.model_copy(update={"truth": out / "truth.json", "out": out})
    evaluation = evaluate(whole, judged, loggers=logging)

    note("5/5  report")
    report = write_report(out, overwrite=True)
    seconds = time.perf_counter() - started
    data = evaluation.as_dict() | {"report": str(report.path), "seconds": seconds, "out": str(out)}
    return VerbResult(data, (*_views(evaluation), f"{seconds:.0f} s; the whole story is in {report.path}"))


def _fill_cache(
    pool: ProcessPoolExecutor,
    offline: EvaluateConfig,
    judged: Mapping[str, PolicySource],
    logging: Mapping[str, PolicySource],
) -> None:
    """Evaluate one candidate in each process: what takes long is in the cache when all are evaluated together."""
    slow = offline.model_copy(update={"estimators": ("wm",)})
    first = next(iter(judged))  # the loggers are played along with it
    parts = {
        name: partial(evaluate, slow, {name: policy}, loggers=logging if name == first else {})
        for name, policy in judged.items()
    }
    with progress() as bar:
        line = bar.add_task("evaluate", total=len(parts), detail="")
        run_all(pool, parts, lambda done, total, name: bar.update(line, completed=done, detail=name))


def play(name: str, policy: PolicySource, tasks: int, repeats: int, seed: int, out: Path) -> list[Trajectory]:
    """Play a policy at the same tasks as all others; the episodes are in the log `out`."""
    world = envs.load(ENV, None, OPTIONS)
    how: dict[str, Any] = {"name": name, "split": SPLIT, "tasks": tasks, "repeats": repeats, "seed": seed, "out": out}
    return collect_tasks(world, policy.load(world), **how)


def _make_room(settings: Settings) -> None:
    """An empty folder for the demo, with a file by which the next one knows it."""
    marker = settings.out / "demo.json"
    if settings.out.exists() and any(settings.out.iterdir()):
        if not marker.is_file():
            raise InputError(f"{settings.out}: is not empty and holds no demo: name another folder with --out")
        if not settings.overwrite:
            raise InputError(f"{settings.out}: holds an earlier demo: --overwrite starts anew, --out goes elsewhere")
        shutil.rmtree(settings.out)
    files.write_json(marker, settings.model_dump(mode="json"))


def _views(evaluation: Evaluation) -> list[Any]:
    """The truth beside every estimator, and how well each agrees with it."""
    names = evaluation.estimators
    rows = [
        [judged.name, f"{judged.truth:.2f}", *(_number(judged.estimates[name].value) for name in names)]
        for judged in sorted(evaluation.policies, key=lambda judged: -(judged.truth or 0.0))
    ]
    agreement = [
        (name, *(_number(measures[measure]) for measure in ("spearman", "mae", "coverage")))
        for name, measures in sorted(evaluation.agreement.items(), key=lambda item: -(item[1]["spearman"] or -2.0))
    ]
    return [
        table(
            "value of eight policies: the truth, and what a log of three others says", ("policy", "truth", *names), rows
        ),
        table("agreement with the truth", ("estimator", "rank correlation", "mean error", "coverage"), agreement),
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
