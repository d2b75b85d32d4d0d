"""Where a cast plays: its log, its truth, the world models of that log and what they say, all kept in one folder.

What is asked for is made once. Most of it can be done beside other things: a `Crew` of processes does it.
"""

import functools
import json
import multiprocessing
import os
import re
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from worldline import envs, store
from worldline.adwm.ensemble import FIGURES, Ensemble
from worldline.adwm.fit import FitSettings, Watch, fit_ensemble
from worldline.adwm.world_model_env import IMAGINATION_PRESETS
from worldline.bench.cast import Cast, Clone, Make, ladder, played
from worldline.config import Config, option
from worldline.evaluate import EvaluateConfig
from worldline.evaluate.case import Case
from worldline.evaluate.settings import DEFAULT
from worldline.evaluate.world_model import CERTIFICATE, TOLD, WorldModelEstimators, written
from worldline.sft import SftConfig, sft
from worldline.types import InputError, Policy, Trajectory

RIVALS = ("wm-ar", "wm-joint", "wm-knn")
TEXT_EPOCHS = 8.0


class StageConfig(Config):
    """How much is played, fitted and imagined."""

    tasks: int = option(171, help="tasks that every logger plays", ge=8)
    truth: int = option(3, help="times each target plays every task for its true value", ge=1)
    rollouts: int = option(2, help="imagined episodes per task", ge=1)
    rival_seeds: int = option(1, help="of the seeds, how many the rival world models are measured on", ge=1)
    rival_rollouts: int = option(1, help="the same for rival world models and for the certificate", ge=1)
    members: int = option(3, help="ensemble size", ge=1, le=5)
    horizon: int = option(64, help="held-out episodes replayed for the horizon curves; 0: none", ge=0)
    estimators: tuple[str, ...] = option(("auto",), help="as in evaluate; wm-text only where it is named")
    certificate: bool = option(True, help="also what the log's own policies say of each estimator")
    refit: bool = option(True, help="part of the certificate: fit again without each logger")
    jobs: int = option(os.cpu_count() or 1, help="processes that share the work", ge=1)
    imagined: bool = option(False, help="keep the imagined episodes too, to be read")
    together: bool = option(False, help="the log in one folder, and the truth in one, not in one for each policy")
    seed: int = option(0, help="of the log and the truth")


@dataclass(frozen=True)
class Work:
    """Something that can be done beside other things, and leaves its result on disk."""

    kind: Literal["play", "score", "fit", "read", "imagine", "certify"]
    name: str = ""
    seed: int = 0
    manner: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.manner, self.name, f"(seed {self.seed})") if part)


_FIXED = ("tasks", "truth", "rollouts", "rival_rollouts", "members", "together", "seed")
"""What everything in a stage's folder depends on."""


class Stage:
    """Everything that a ranking needs: made when first asked for, kept in the folder `out`."""

    def __init__(self, config: StageConfig, env: str, cast: Cast, out: Path) -> None:
        self.config, self.env, self.cast, self.out = config, env, cast, out
        self.world = envs.load(env, None, cast.options)

    def claim(self) -> None:
        """Note down what the folder is made with; InputError where it was made with something else."""
        path, wanted = self.out / "stage.json", self.config.model_dump(mode="json", include=set(_FIXED))
        if path.is_file():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            other = [f"--{name} {found.get(name)}" for name in _FIXED if found.get(name) != wanted[name]]
            if other:
                raise InputError(f"{self.out}: was made with {', '.join(other)}: give these, or another --out")
        self.out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")

    @functools.cached_property
    def rungs(self) -> list[Path]:
        return ladder(self.cast, self.env, self.out, self.config.seed)

    @functools.cached_property
    def loggers(self) -> dict[str, Policy]:
        return self._made(self.cast.loggers)

    @functools.cached_property
    def targets(self) -> dict[str, Policy]:
        return self._made(self.cast.targets)

    @functools.cached_property
    def further(self) -> dict[str, Policy]:
        return self._made(self.cast.further)

    def _made(self, cast: dict[str, Make]) -> dict[str, Policy]:
        """Nobody is cloned for players who need no clone."""
        return {name: make(self.world, self.rungs if isinstance(make, Clone) else ()) for name, make in cast.items()}

    def judged(self, name: str) -> Policy:
        return (self.targets if name in self.cast.targets else self.further)[name]

    def play(self, name: str) -> list[Trajectory]:
        """A logger's part of the log, or anyone else's episodes for its true value."""
        logger = name in self.cast.loggers
        policy = self.loggers[name] if logger else self.judged(name)
        times, seed = (1, self.config.seed) if logger else (self.config.truth, self.config.seed + 1)
        return played(
            self.world, policy, name, self.cast, self._folder(name), tasks=self.config.tasks, times=times, seed=seed
        )

    def _folder(self, name: str) -> Path:
        folder = self.out / ("log" if name in self.cast.loggers else "truth")
        return folder if self.config.together else folder / re.sub(r"\W+", "-", name)

    def log(self) -> list[Trajectory]:
        return [episode for name in self.cast.loggers for episode in self.play(name)]

    def value(self, name: str) -> float:
        """What a policy is really worth."""
        return float(np.mean([episode.episode_return for episode in self.play(name)]))

    def truth(self) -> dict[str, float]:
        found = {name: self.value(name) for name in self.cast.targets}
        (self.out / "truth.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return found

    def fit(self, seed: int, watch: Watch = lambda row: None) -> Ensemble:
        folder, rivals = self.out / f"wm-{seed}", any(self._asks(seed, name) for name in RIVALS)
        if (folder / FIGURES).is_file():
            found = Ensemble.load(folder)
            if found.members[0].rivals is not None or not rivals:
                return found
            shutil.rmtree(folder)
        settings = FitSettings(
            members=self.config.members, rivals=rivals, replayed_episodes=self.config.horizon, seed=seed
        )
        fitted = fit_ensemble(self.log(), settings, watch)
        fitted.save(folder)
        return fitted.ensemble

    @functools.cached_property
    def text_model(self) -> str:
        """A language model that was taught what the log's world answers: the world of `wm-text`."""
        folder = self.out / "text"
        if not (folder / "model").is_dir():
            shutil.rmtree(self.out / "text-log", ignore_errors=True)
            with store.StoreWriter(self.out / "text-log") as writer:
                for episode in self.log():
                    writer.append(episode)
            how: dict[str, Any] = {"target": "observation", "outcome": True, "only_success": False, "overwrite": True}
            sft(
                SftConfig(
                    source=str(self.out / "text-log"), out=folder, epochs=TEXT_EPOCHS, seed=self.config.seed, **how
                )
            )
        return f"hf:{folder / 'model'}"

    @functools.cache  # noqa: B019 - a stage lives as long as its process
    def case(self, seed: int) -> Case:
        config = EvaluateConfig(
            log=tuple(dict.fromkeys(self._folder(name) for name in self.cast.loggers)),
            truth=self.out / "truth.json",
            estimators=self.asked(seed),
            rollouts=self.config.rollouts,
            rival_rollouts=self.config.rival_rollouts,
            certificate=self.config.certificate,
            refit=self.config.refit,
            text_model=self.text_model if self._asks(seed, TOLD) else "",
            seed=self.config.seed,
            out=self.out if self.config.imagined else None,
        )
        return Case(config, self.targets, self.loggers, lambda what, done, total: None, keep=self.out / "scores")

    @functools.cache  # noqa: B019
    def estimators(self, seed: int) -> WorldModelEstimators:
        kept = [self.out / f"wm-{n}" / "imagined" for n in (seed, 0)]
        if not (kept[0] / CERTIFICATE).is_file() and (kept[1] / CERTIFICATE).is_file():
            # the certificate is about the log: one seed of it will do
            written(kept[0] / CERTIFICATE, (kept[1] / CERTIFICATE).read_bytes())
        return WorldModelEstimators(self.case(seed), self.fit(seed), keep=kept[0])

    def asked(self, seed: int) -> tuple[str, ...]:
        """The estimators of one seed: rivals are slow and not what the seeds are about."""
        rivals = seed < self.config.rival_seeds
        return self.config.estimators if rivals else (*DEFAULT, "adwm", "am-dr")

    def _asks(self, seed: int, name: str) -> bool:
        """Whether an estimator is wanted; the language model, slow where answers are pages, only by its name."""
        return name in self.asked(seed) or (name != TOLD and "auto" in self.asked(seed))

    def fits(self, seeds: Sequence[int]) -> list[Work]:
        """The world models of these seeds; the one that speaks is the same for all."""
        told = [Work("read")] if any(self._asks(seed, TOLD) for seed in seeds) else []
        return [*told, *(Work("fit", seed=seed) for seed in seeds)]

    def questions(self, seed: int) -> list[Work]:
        """All that an evaluation will ask, one by one."""
        scores = [Work("score", name) for name in (*self.cast.loggers, *self.cast.targets)] if seed == 0 else []
        names = [name for name in (*IMAGINATION_PRESETS, TOLD) if self._asks(seed, name)]
        players = (*self.cast.targets, *(self.cast.loggers if self.config.certificate else ()))
        imagined = [Work("imagine", player, seed, name) for name in names for player in players]
        certified = self.config.certificate and self.config.refit and seed == 0
        return [*([Work("certify", seed=seed)] if certified else []), *scores, *imagined]

    def do(self, work: Work) -> None:
        if work.kind == "play":
            self.play(work.name)
        elif work.kind == "fit":
            self.fit(work.seed)
        elif work.kind == "read":
            self.text_model  # noqa: B018
        elif work.kind == "score":
            self.case(0).score(work.name)
        elif work.kind == "imagine":
            self.estimators(work.seed).answer(work.name, work.manner)
        else:
            self.estimators(work.seed).leave_out(["adwm"])


class Crew:
    """`config.jobs` processes at work for one stage."""

    def __init__(self, stage: Stage) -> None:
        stage.claim()
        if any(isinstance(make, Clone) for make in (stage.cast.loggers | stage.cast.targets).values()):
            stage.rungs  # noqa: B018 - the cloning run comes first, and once
        context = multiprocessing.get_context("spawn")
        given = (stage.config, stage.env, stage.cast, stage.out)
        self._pool = ProcessPoolExecutor(stage.config.jobs, context, _begin, given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=error is not None)

    def do(self, work: Sequence[Work], told: Callable[[int, int, Work], None] = lambda done, of, work: None) -> None:
        """All of it; `told` hears of each that is done."""
        begun = [self._pool.submit(_do, one) for one in work]
        for done, finished in enumerate(as_completed(begun), 1):
            told(done, len(work), finished.result())


_stage: Stage


def _begin(config: StageConfig, env: str, cast: Cast, out: Path) -> None:
    import torch

    global _stage
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _stage = Stage(config, env, cast, out)


def _leave_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(work: Work) -> Work:
    _stage.do(work)
    return work
