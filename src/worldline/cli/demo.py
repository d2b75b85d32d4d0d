"""`worldline demo`: the whole loop on the embedded household world, with small language models trained on the spot."""

import os
import shutil
import time
from pathlib import Path
from typing import Any, ClassVar

from worldline import files
from worldline.adwm.ensemble import Ensemble
from worldline.bench.cast import CASTS, Cast, Clone
from worldline.bench.stage import Crew, Stage, StageConfig, Work
from worldline.cli.outcome import Outcome, note, progress, table
from worldline.config import Config, Folder, option
from worldline.evaluate import Evaluation
from worldline.evaluate.evaluation import judge
from worldline.policies import PolicyConfig
from worldline.report import write_report
from worldline.signals import kept
from worldline.types import InputError

ENV = "household"
_CHOOSE = PolicyConfig(mode="choose", cache_gib=0.25)
_WRITE = PolicyConfig(cache_gib=0.25)
_SHORT = PolicyConfig(mode="choose", history=3, cache_gib=0.25)
CAST = Cast(
    clone={"episodes": 1500, "checkpoints": 6},
    options=CASTS[ENV].options,
    loggers=CASTS[ENV].loggers,
    targets={
        "1/3 trained": Clone(1, settings=_CHOOSE),
        "1/2 trained": Clone(2, settings=_CHOOSE),
        "2/3 trained": Clone(3, settings=_CHOOSE),
        "trained": Clone(5, settings=_CHOOSE),
        "trained, writing": Clone(5, settings=_WRITE),
        "trained, half by chance": Clone(5, 0.5, settings=_CHOOSE),
        "trained, short memory": Clone(5, settings=_SHORT),
        "2/3 trained, writing": Clone(3, settings=_WRITE),
    },
)
ESTIMATORS = ("naive", "wis", "dr", "lfqe", "adwm", "am-dr")


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


def run(settings: Settings) -> Outcome:
    _make_room(settings)
    with kept(lambda: _kept(settings)):
        return _loop(settings)


def _kept(settings: Settings) -> str:
    if not (settings.out / "stage.json").is_file():
        return "nothing is kept"
    return f"{settings.out} holds half a demo, which cannot go on: --overwrite starts anew"


def _loop(settings: Settings) -> Outcome:
    started, out = time.perf_counter(), settings.out
    config = StageConfig(
        tasks=settings.tasks,
        truth=2,
        members=1,
        horizon=16,
        estimators=ESTIMATORS,
        refit=False,
        imagined=True,
        together=True,
        jobs=settings.jobs,
        seed=settings.seed,
    )
    stage = Stage(config, ENV, CAST, out)
    note("1/5  collect: cloning the expert into a small language model, logging three policies")
    with Crew(stage) as crew:
        crew.do([Work("play", name) for name in CAST.loggers])
        note("2/5  fit: a diffusion world model of that log")
        _fitted(stage)
        note("3/5  evaluate: eight other policies, offline, by every estimator")
        _together(crew, stage.questions(0))
        note("4/5  the truth: the same eight, played for real")
        _together(crew, [Work("play", name) for name in CAST.targets])
    stage.truth()
    evaluation = judge(stage.case(0), stage.estimators(0))
    told = evaluation.as_dict()
    files.write_json(out / "evaluation.json", told)
    note("5/5  report")
    report = write_report(out, overwrite=True)
    seconds = time.perf_counter() - started
    data = told | {"report": str(report.path), "seconds": seconds, "out": str(out)}
    return Outcome(data, (*_views(evaluation), f"{seconds:.0f} s; the whole story is in {report.path}"))


def _make_room(settings: Settings) -> None:
    if settings.out.exists() and any(settings.out.iterdir()):
        if not (settings.out / "stage.json").is_file():
            raise InputError(f"{settings.out}: is not empty and holds no demo: name another folder with --out")
        if not settings.overwrite:
            raise InputError(f"{settings.out}: holds an earlier demo: --overwrite starts anew, --out goes elsewhere")
        shutil.rmtree(settings.out)


def _fitted(stage: Stage) -> Ensemble:
    with progress() as bar:
        line = bar.add_task("fitting", total=None, detail="")

        def watch(row: dict[str, Any]) -> None:
            bar.update(line, description=f"member {row['member'] + 1}", completed=row["epoch"], total=row["of"])

        return stage.fit(0, watch)


def _together(crew: Crew, work: list[Work]) -> None:
    with progress() as bar:
        line = bar.add_task(f"{work[0].kind}", total=len(work), detail="")
        crew.do(work, lambda done, of, one: bar.update(line, description=one.kind, completed=done, detail=one.name))


def _views(evaluation: Evaluation) -> list[Any]:
    """The truth beside every estimator, and how well each agrees with it."""
    names = evaluation.estimators
    rows = [
        [judged.name, f"{judged.truth:.2f}", *(_said(judged.estimates[name].value) for name in names)]
        for judged in sorted(evaluation.policies, key=lambda judged: -(judged.truth or 0.0))
    ]
    agreed = [
        (name, *(_said(found[measure]) for measure in ("spearman", "mae", "coverage")))
        for name, found in sorted(evaluation.agreement.items(), key=lambda item: -(item[1]["spearman"] or -2.0))
    ]
    return [
        table(
            "value of eight policies: the truth, and what a log of three others says", ("policy", "truth", *names), rows
        ),
        table("agreement with the truth", ("estimator", "rank correlation", "mean error", "coverage"), agreed),
    ]


def _said(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
