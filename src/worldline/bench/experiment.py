"""A policy suite at work: its log, its truth, the world models of that log and their evaluation, kept in one folder.

Everything is made once. `bench rank` does the parts that do not need each other side by side, in several processes.
"""

import functools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from worldline import envs, files, store
from worldline.adwm.ensemble import FIGURES, Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.kernel_env import KERNEL
from worldline.adwm.rivals.latent import RIVALS
from worldline.bench.policy_suite import Checkpoint, PolicySuite, clone_checkpoints
from worldline.collect import collect_tasks
from worldline.config import Config, option
from worldline.evaluate import EvaluateConfig
from worldline.evaluate.case import Case
from worldline.evaluate.imagination import TEXT_MODEL
from worldline.evaluate.settings import DEFAULT
from worldline.evaluate.world_model import CORRECTED, FOLDS, WorldModelEstimators
from worldline.policies import PolicySource
from worldline.sft import SftConfig, sft
from worldline.types import InputError, Trajectory, World, derive_seed

TEXT_EPOCHS = 8.0
Work = dict[str, Callable[[], object]]
"""What can be done side by side, by a name for the person who watches."""


class ExperimentConfig(Config):
    """How much is played, fitted and imagined."""

    tasks: int = option(171, help="tasks that every logger plays", ge=8)
    truth: int = option(3, help="times each target plays every task for its true value", ge=1)
    rollouts: int = option(2, help="imagined episodes per task", ge=1)
    rival_seeds: int = option(1, help="of the seeds, how many the rival world models are measured on", ge=1)
    rival_rollouts: int = option(1, help="the same for rival world models and for the certificate", ge=1)
    members: int = option(3, help="ensemble size; 0: no networks, wm alone", ge=0, le=5)
    horizon: int = option(64, help="held-out episodes replayed for the horizon curves; 0: none", ge=0)
    estimators: tuple[str, ...] = option(("auto",), help="as in evaluate; wm-text only where it is named")
    certificate: bool = option(True, help="also measure each estimator on the log's own policies")
    refit: bool = option(True, help="part of the certificate: fit again without each logger")
    jobs: int = option(os.cpu_count() or 1, help="processes that share the work", ge=1)
    seed: int = option(0, help="of the log and the truth")


_DECISIVE = ("tasks", "truth", "rollouts", "rival_rollouts", "members", "seed")
"""The settings that everything in an experiment's folder depends on."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything that a ranking needs: made when it is first needed, kept in the folder `out`."""

    config: ExperimentConfig
    env: str
    suite: PolicySuite
    out: Path
    data: Path | None = None
    """The environment's data, where it needs some."""
    log_number: int = 0
    """Which log: another number, the same loggers with other draws. Truth and clones are the same for all."""
    own_chances: bool = False
    """Each logger meets its own chances in a task; else all meet the same, which a model may take for the task's."""

    def claim(self) -> None:
        """Write down the settings of the folder; InputError where it was made with others."""
        path, settings = self.out / "experiment.json", self.config.model_dump(mode="json", include=set(_DECISIVE))
        earlier = read_settings(self.out)
        other = [
            f"--{name} {earlier.get(name)}" for name in _DECISIVE if earlier and earlier.get(name) != settings[name]
        ]
        if other:
            raise InputError(f"{self.out}: was made with {', '.join(other)}: give these, or another --out")
        files.write_json(path, settings)

    @functools.cached_property
    def world(self) -> World:
        return envs.load(self.env, self.data, self.suite.options)

    @functools.cached_property
    def checkpoints(self) -> list[Path]:
        return clone_checkpoints(self.suite, self.env, self.out / "clone", self.config.seed)

    def source(self, name: str) -> PolicySource:
        """How to make a policy; nothing is cloned for one that is no clone."""
        policy = self.suite.policies[name]
        return policy.source(self.checkpoints) if isinstance(policy, Checkpoint) else policy

    def play(self, name: str) -> list[Trajectory]:
        """A logger's part of the log, or anyone else's episodes for its true value."""
        logs = name in self.suite.loggers
        return collect_tasks(
            self.world,
            self.source(name).load(self.world),
            name=name,
            split=self.suite.split,
            tasks=self.config.tasks,
            repeats=1 if logs else self.config.truth,
            seed=self._log_seed(name) if logs else self.config.seed + 1,
            out=self._folder(name),
        )

    def _log_seed(self, logger: str) -> int:
        seed = derive_seed(self.config.seed, "log", self.log_number) if self.log_number else self.config.seed
        return derive_seed(seed, logger) if self.own_chances else seed

    def _folder(self, name: str) -> Path:
        log = f"log-{self.log_number}" if self.log_number else "log"
        return self.out / (log if name in self.suite.loggers else "truth") / re.sub(r"\W+", "-", name)

    def log(self) -> list[Trajectory]:
        return [episode for name in self.suite.loggers for episode in self.play(name)]

    def value(self, name: str) -> float:
        """A policy's true value: the mean return of its episodes."""
        return float(np.mean([episode.episode_return for episode in self.play(name)]))

    def truth(self) -> dict[str, float]:
        path = self.out / "truth.json"
        values: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if set(values) != set(self.suite.targets):
            values = {name: self.value(name) for name in self.suite.targets}
            files.write_json(path, values)
        return values

    def world_model(self, seed: int) -> Path:
        """The folder of the world model that is fitted with this seed."""
        return self.out / f"wm-{seed}"

    def fit(self, seed: int) -> Ensemble:
        folder, rivals = self.world_model(seed), any(self._wants(seed, name) for name in RIVALS)
        if (folder / FIGURES).is_file():
            ensemble = Ensemble.load(folder)
            if not rivals or not ensemble.members or ensemble.members[0].rivals is not None:
                return ensemble
            shutil.rmtree(folder)
        settings = FitSettings(
            members=self.config.members,
            rivals=rivals,
            replayed_episodes=self.config.horizon,
            seed=seed,
        )
        fitted = fit_ensemble(self.log(), settings)
        fitted.save(folder)
        return fitted.ensemble

    @property
    def text_model(self) -> Path:
        """The folder of a language model that predicts what the log's world answers: the world of `wm-text`."""
        return self.out / "text" / "model"

    def fit_text_model(self) -> None:
        if self.text_model.is_dir():
            return
        source = self.out / "text-log"
        shutil.rmtree(source, ignore_errors=True)
        with store.StoreWriter(source) as writer:
            for episode in self.log():
                writer.append(episode)
        settings: dict[str, Any] = {"target": "observation", "outcome": True, "only_success": False, "overwrite": True}
        out, seed = self.text_model.parent, self.config.seed
        sft(SftConfig(source=str(source), out=out, epochs=TEXT_EPOCHS, seed=seed, **settings))

    def estimators(self, seed: int) -> tuple[str, ...]:
        """The estimators of one seed: rivals are slow, and not what the seeds are about."""
        return self.config.estimators if seed < self.config.rival_seeds else (*DEFAULT, "adwm", CORRECTED)

    def _wants(self, seed: int, name: str) -> bool:
        """Whether an estimator is wanted; the language model, slow where answers are pages, only by its name."""
        return name in self.estimators(seed) or (name != TEXT_MODEL and "auto" in self.estimators(seed))

    def _imagines(self, seed: int, name: str) -> bool:
        """Whether a world model must be played in; `am-dr` needs the episodes of `adwm`."""
        return self._wants(seed, name) or (name == "adwm" and self._wants(seed, CORRECTED))

    def evaluation(self, seed: int) -> EvaluateConfig:
        """The evaluation of all targets with the world model of one seed."""
        return EvaluateConfig(
            log=tuple(self._folder(name) for name in self.suite.loggers),
            env=self.env,
            data=self.data,
            options=self.suite.options,
            world_model=self.world_model(seed),
            text_model=f"hf:{self.text_model}" if self._wants(seed, TEXT_MODEL) else "",
            truth=self.out / "truth.json",
            estimators=self.estimators(seed),
            rollouts=self.config.rollouts,
            rival_rollouts=self.config.rival_rollouts,
            certificate=self.config.certificate,
            refit=self.config.refit,
            refit_estimators=(KERNEL, "adwm"),
            seed=self.config.seed,
            cache=self.out / "cache",
        )

    def sources(self, names: list[str]) -> dict[str, PolicySource]:
        return {name: self.source(name) for name in names}

    def plays(self) -> Work:
        """The log and the truth."""
        return {f"play {name}": partial(self.play, name) for name in (*self.suite.loggers, *self.suite.targets)}

    def fits(self, seeds: list[int]) -> Work:
        """The world models of these seeds; the language model is the same for all."""
        text = {"fit wm-text": self.fit_text_model} if any(self._wants(seed, TEXT_MODEL) for seed in seeds) else {}
        return text | {f"fit (seed {seed})": partial(self.fit, seed) for seed in seeds}

    def evaluations(self, seeds: list[int]) -> Work:
        """The evaluations of these seeds in parts, each of which leaves in the cache what the whole will need.

        Refits, the longest, come first. They and the log-probabilities are the same for all seeds.
        """
        work: Work = {}
        loggers, targets = self.suite.loggers, self.suite.targets
        for seed in seeds[:1]:
            if self.config.certificate and self.config.refit and self._wants(seed, "adwm"):
                work |= {f"refit {fold + 1} of {FOLDS}": partial(self._refit, fold, seed) for fold in range(FOLDS)}
            work |= {f"score {name}": partial(self._score, name, seed) for name in (*loggers, *targets)}
        for seed in seeds:
            names = [name for name in (*IMAGINATION_PRESETS, TEXT_MODEL) if self._imagines(seed, name)]
            players = (*targets, *(loggers if self.config.certificate else ()))
            work |= {
                f"imagine {player} in {name} (seed {seed})": partial(self._imagine, player, name, seed)
                for name in names
                for player in players
            }
        return work

    def _case(self, names: Iterable[str], seed: int) -> Case:
        """The case of an evaluation with some of its policies alone."""
        loggers = self.sources([name for name in names if name in self.suite.loggers])
        targets = self.sources([name for name in names if name not in self.suite.loggers])
        return Case(self.evaluation(seed), targets, loggers, lambda what, done, total: None)

    def _world_model_estimators(self, names: Iterable[str], seed: int) -> WorldModelEstimators:
        return WorldModelEstimators(self._case(names, seed), Ensemble.load(self.world_model(seed)))

    def _refit(self, fold: int, seed: int) -> None:
        self._world_model_estimators(self.suite.loggers, seed).leave_out_fold(fold, ["adwm"])

    def _score(self, name: str, seed: int) -> None:
        case = self._case([name], seed)
        case.loggers  # noqa: B018 - computes and caches the log-probabilities of a logger
        for candidate in case.candidates:
            case.target(candidate)

    def _imagine(self, player: str, name: str, seed: int) -> None:
        """A target from all starts of the log; a logger from its own, for the null test."""
        world = self._world_model_estimators([player], seed)
        for candidate in world.case.candidates:
            world.imagined(candidate, name)
        for label in world.loggers:
            world.null_trial(label, [name])


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings that an experiment's folder was made with; none where there is no experiment."""
    path = folder / "experiment.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
