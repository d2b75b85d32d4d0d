"""`worldline demo`: the whole loop on the embedded household world, with small language models trained on the spot.

collect -> fit -> evaluate -> report: read `run` from top to bottom, it is the library's tour.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from worldline import envs, files, store
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.cli.verb_result import VerbResult, note, progress, table
from worldline.collect import collect_tasks
from worldline.config import Config, Folder, option
from worldline.evaluate import EvaluateConfig, Evaluation, evaluate
from worldline.evaluate.case import Case
from worldline.evaluate.world_model import FOLDS, WorldModelEstimators
from worldline.policies import PolicyConfig, PolicySource, PolicySpec
from worldline.policies.faulty_expert import Faults
from worldline.report import write_report
from worldline.signals import kept
from worldline.types import InputError, Trajectory
from worldline.worker_pool import WorkerPool, run_all, worker_pool

if TYPE_CHECKING:
    from worldline.sft.clone import Progress

ENV, OPTIONS, SPLIT = "household", {"level": "small"}, "unseen"
CLONING: dict[str, Any] = {"episodes": 600, "batch_tokens": 1024, "checkpoints": 2}
ESTIMATORS = ("naive", "wis", "dr", "lfqe", "wm")
CHOOSE = PolicyConfig(mode="choose", cache_gib=0.25)
CLONE = "clone"


class DemoConfig(Config):
    """Clone an expert into a small language model, log it and two scripted agents, fit a world model on that log, judge
    seven other agents offline by every estimator, and compare with how these did when they were played for real.

    Needs no network, no key, no GPU: two cores and some minutes.
    """

    examples: ClassVar[tuple[str, ...]] = ("worldline demo", "worldline demo --tasks 80 --out my-demo --overwrite")

    out: Folder = option(Path("demo"), help="folder of the demo's models, logs and report")
    tasks: int = option(32, help="tasks that each of the three loggers plays", ge=8)
    seed: int = option(0, help="decides every random draw")
    jobs: int = option(min(2, os.cpu_count() or 1), help="processes that share the work", ge=1)
    overwrite: bool = option(False, help="start anew in a folder that holds a demo")


Settings = DemoConfig


def loggers(checkpoints: Sequence[Path]) -> dict[str, PolicySource]:
    """The policies that make the log: half a clone, and experts that act by chance now and then, or often."""
    return {
        "logger-clone": PolicySpec(f"hf:{checkpoints[0]}", CHOOSE, epsilon=0.2),
        "logger-good": Faults(chance=0.3),
        "logger-poor": Faults(chance=0.6),
    }


def candidates(checkpoints: Sequence[Path]) -> dict[str, PolicySource]:
    """The policies whose value we want to know: the clone, and experts with faults."""
    return {CLONE: PolicySpec(f"hf:{checkpoints[1]}", CHOOSE), **scripted_candidates()}


def scripted_candidates() -> dict[str, PolicySource]:
    """Those that need no clone."""
    return {
        "expert, mostly by chance": Faults(chance=0.8),
        "expert, half by chance": Faults(chance=0.45),
        "expert that forgets": Faults(memory=2, chance=0.1),
        "expert that dawdles": Faults(again=0.5, chance=0.2),
        "expert that fumbles": Faults(fumble=0.5, chance=0.2),
        "expert, a little by chance": Faults(chance=0.15),
    }


def run(settings: DemoConfig) -> VerbResult:
    _make_room(settings)
    with kept(lambda: _kept(settings)):
        return _loop(settings)


def _kept(settings: DemoConfig) -> str:
    if not (settings.out / "clone").is_dir():
        return "nothing is kept"
    return f"{settings.out} holds half a demo, which cannot go on: --overwrite starts anew"


def _loop(settings: DemoConfig) -> VerbResult:
    """The loop itself: collect, fit, evaluate, report."""
    started, out, seed = time.perf_counter(), settings.out, settings.seed
    with worker_pool(settings.jobs) as pool:
        note("1/5  clone: an expert's episodes teach a small language model; as soon as it is half taught, it and two")
        note(f"     others play {settings.tasks} tasks each, and a world model is fitted on their log, beside the rest")
        note("     and six scripted agents, who play for real")
        scripted = pool.submit(_play_all, settings, scripted_candidates())  # on the core that the clone leaves idle
        begun: list[Any] = []
        checkpoints = _cloned(settings, lambda half: begun.append(pool.submit(_logged_and_fitted, settings, half)))
        logging, judged = loggers(checkpoints), candidates(checkpoints)

        note("2/5  collect and fit: the log and its world model; next, the same seven are judged from the log alone")
        scripted.result()
        begun[0].result()
        values = (f"{name} {_mean(store.read(out / 'log', policies=[name])):.2f}" for name in logging)
        note("     " + ", ".join(values))

        note("3/5  evaluate: the seven, offline, by every estimator; first each logger in a world model that has not")
        note("     seen it, which measures the error of wm; beside that, the clone plays for real, too")
        offline = EvaluateConfig(
            log=(out / "log",),
            env=ENV,
            options=OPTIONS,
            world_model=out / "world-model",
            estimators=ESTIMATORS,
            rollouts=2,
            refit_estimators=("wm",),
            seed=seed,
            cache=out / "cache",
        )
        played = {"the clone, for real": partial(_play_all, settings, {CLONE: judged[CLONE]})}
        _all(pool, "evaluate", _parts(offline, judged, logging) | played)

    note("4/5  compare: what was judged from the log, with the truth of all seven, that no estimator has seen")
    truth = {name: _mean(store.read(out / "truth", policies=[name])) for name in judged}
    files.write_json(out / "truth.json", truth)
    whole = offline.model_copy(update={"truth": out / "truth.json", "out": out})
    evaluation = evaluate(whole, judged, loggers=logging)

    note("5/5  report: one page of all of it")
    report = write_report(out, overwrite=True)
    seconds = time.perf_counter() - started
    data = evaluation.as_dict() | {"report": str(report.path), "seconds": seconds, "out": str(out)}
    last = f"{seconds:.0f} s; the whole story is in {report.path}"
    return VerbResult(data, (*_views(evaluation), evaluation.answer, last))


def _cloned(settings: DemoConfig, half_taught: Callable[[Path], None]) -> list[Path]:
    """Checkpoints of the clone, the last one the best; `half_taught` gets the first as soon as it is there."""
    import torch

    from worldline.sft import SftConfig, sft  # takes seconds: not in the processes that share the rest of the work

    torch.set_num_threads(1)  # the other core fits the world model meanwhile
    cloning = SftConfig(source=ENV, options=OPTIONS, **CLONING, seed=settings.seed, out=settings.out / "clone")
    folder, handed_on = settings.out / "clone" / "checkpoints", False
    with progress() as bar:
        line = bar.add_task("clone", total=None, detail="")

        def trained(now: "Progress") -> None:
            nonlocal handed_on
            bar.update(line, total=now.steps, completed=now.step, detail=f"loss {now.loss:.2f}")
            if not handed_on and folder.is_dir():
                half_taught(min(folder.iterdir()))
                handed_on = True

        sft(cloning, trained=trained)
    return sorted(folder.iterdir())


def _logged_and_fitted(settings: DemoConfig, half_taught: Path) -> None:
    """The log of the three loggers, and `wm` of it; what it says of policies it has not seen, the evaluation measures.

    They play one after the other: the log's order is part of what is reproduced.
    """
    log: list[Trajectory] = []
    for name, policy in loggers([half_taught]).items():
        log += play(name, policy, settings.tasks, 1, settings.seed, settings.out / "log")
    fitted = fit_ensemble(log, FitSettings(members=0, left_out=False, replayed_episodes=16, seed=settings.seed))
    fitted.save(settings.out / "world-model")


def _play_all(settings: DemoConfig, policies: Mapping[str, PolicySource]) -> None:
    """The truth of these policies."""
    for name, policy in policies.items():
        play(name, policy, settings.tasks, 2, settings.seed + 1, settings.out / "truth")


def _all(pool: WorkerPool, what: str, work: Mapping[str, Callable[[], object]]) -> None:
    """Everything in `work`, in the pool, with a line of progress."""
    with progress() as bar:
        line = bar.add_task(what, total=len(work), detail="")
        run_all(pool, work, lambda done, total, name: bar.update(line, completed=done, detail=name))


def _parts(
    offline: EvaluateConfig, judged: Mapping[str, PolicySource], logging: Mapping[str, PolicySource]
) -> dict[str, Callable[[], object]]:
    """What takes long, for the cache, in parts that processes share; the longest first."""
    slow = offline.model_copy(update={"estimators": ("wis", "wm"), "refit": False})
    alone = slow.model_copy(update={"certificate": False})
    last = list(judged)[-1]
    refits = {f"refit {fold + 1} of {FOLDS}": partial(_refit, slow, logging, fold) for fold in range(FOLDS)}
    loggers_too = {f"the loggers, {last}": partial(evaluate, slow, {last: judged[last]}, loggers=logging)}
    others = {name: partial(evaluate, alone, {name: judged[name]}) for name in judged if name != last}
    return {**refits, **loggers_too, **others}


def _refit(config: EvaluateConfig, logging: Mapping[str, PolicySource], fold: int) -> None:
    """Some loggers, played in a world model of the others' episodes."""
    case = Case(config, {}, logging, lambda what, done, total: None)
    assert config.world_model is not None
    WorldModelEstimators(case, Ensemble.load(config.world_model)).leave_out_fold(fold, ["wm"])


def _mean(episodes: Iterable[Trajectory]) -> float:
    return float(np.mean([episode.episode_return for episode in episodes]))


def play(name: str, policy: PolicySource, tasks: int, repeats: int, seed: int, out: Path) -> list[Trajectory]:
    """Play a policy at the same tasks as all others; the episodes are in the log `out`."""
    world = envs.load(ENV, None, OPTIONS)
    how: dict[str, Any] = {"name": name, "split": SPLIT, "tasks": tasks, "repeats": repeats, "seed": seed, "out": out}
    return collect_tasks(world, policy.load(world), **how)


def _make_room(settings: DemoConfig) -> None:
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
        for name, measures in sorted(evaluation.agreement.items(), key=_best_first)
    ]
    return [
        table(
            "value of seven agents: the truth, and what a log of three others says", ("policy", "truth", *names), rows
        ),
        table("agreement with the truth", ("estimator", "rank correlation", "mean error", "coverage"), agreement),
    ]


def _best_first(item: tuple[str, Mapping[str, float | None]]) -> tuple[float, float]:
    """By rank correlation, then by mean error."""
    correlation, error = (item[1][measure] for measure in ("spearman", "mae"))
    return 2.0 if correlation is None else -correlation, np.inf if error is None else error


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
