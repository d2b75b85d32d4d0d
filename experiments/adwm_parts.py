"""The parts of `adwm_real.py`, each the work of one process: a clone, a log, a truth, a fit, scores, an evaluation.

A part that is done has its JSON in OUT/ENV/results; what other parts need of it lies in OUT/ENV/work. Log-probs and
imagined episodes are left in the cache of `evaluate`, which then only puts them together.
"""

import json
import os
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from adwm_agents import Agent, ClonedPolicy, Plan
from adwm_episodes import consistency, summary
from paw_starts import demonstrate

from worldline import envs, files
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import HORIZON, FitConfig, fit
from worldline.collect import collect_tasks
from worldline.evaluate import EvaluateConfig, evaluate
from worldline.evaluate.case import Case
from worldline.evaluate.settings import DEFAULT
from worldline.evaluate.world_model import FOLDS, WorldModelEstimators
from worldline.policies import PolicyConfig, PolicySource
from worldline.sft import SftConfig, sft
from worldline.types import InputError, World

KERNEL = ("wm", "wm-bag")
"""Worlds of a model without networks."""
NETWORKS, PAPER = "networks", "paper"
"""World models that have networks, beside those called by their seed."""
CLASSICAL = "classical"
"""In the place of a world model: none."""
LOG_SEED, TRUTH_SEED = 0, 1


@dataclass(frozen=True)
class Given:
    """What the command line says beside the plan."""

    env: str
    out: Path
    data: Path | None = None
    model: str = ""
    batch_size: int = 280
    cache_gib: float = 3.0
    batch_tokens: int = 32768
    device: str = "auto"


class Parts:
    """The work of every part, by its name: KIND.WHOM or KIND.WHOM.MODEL."""

    def __init__(self, plan: Plan, given: Given) -> None:
        self.plan, self.given = plan, given
        self.results, self.work = (given.out / given.env / name for name in ("results", "work"))

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Every part, in the order of doing, with the parts that it needs."""
        plan = self.plan
        logs = tuple(f"log.{name}" for name in plan.loggers)
        clones = {f"clone.{name}": () for name in sorted(plan.clones, key=lambda name: plan.clones[name].walkthroughs)}
        parts: dict[str, tuple[str, ...]] = dict(clones)
        parts |= {f"log.{name}": self._clone_of(name) for name in plan.loggers}
        models = [str(seed) for seed in range(plan.seeds)]
        everybody = (*plan.loggers, *plan.targets)
        for model in (*models, NETWORKS):
            parts[f"fit.{model}"] = logs
            if model == models[0]:
                parts |= {f"truth.{name}": self._clone_of(name) for name in plan.targets}
                parts |= {f"refit.{fold}": (*logs, "fit.0") for fold in range(FOLDS)}
            imagined = {f"imagine.{name}.{model}": (f"fit.{model}", *self._clone_of(name)) for name in everybody}
            parts |= imagined
            if model == models[0]:
                parts |= {f"score.{name}": (*logs, *self._clone_of(name)) for name in everybody}
            needed = tuple(f"{kind}.{name}" for name in plan.targets for kind in ("truth", "score"))
            needed += tuple(f"score.{name}" for name in plan.loggers)
            refits = tuple(f"refit.{fold}" for fold in range(FOLDS))
            parts[f"evaluate.{model}"] = (*imagined, *needed, *refits)
            if model == models[0]:
                parts[f"evaluate.{CLASSICAL}"] = needed
                sweep = [plan.at(epsilon) for epsilon in plan.epsilons if epsilon]
                parts |= {f"truth.{name}": self._clone_of(name) for name in sweep}
            if model == models[-1]:
                parts["baselines"] = (*logs, f"score.{plan.swept}")
                parts[f"fit.{PAPER}"] = logs
                parts["cell"] = (f"fit.{PAPER}", "fit.0", *self._clone_of(plan.swept))
        return parts

    def _clone_of(self, name: str) -> tuple[str, ...]:
        player = self.plan.player(name)
        return (f"clone.{player.clone}",) if isinstance(player, Agent) else ()

    def do(self, name: str) -> None:
        """One part, unless it is done; its JSON says how long it took."""
        if self.done(name):
            return
        kind, _, rest = name.partition(".")
        whom, _, model = rest.rpartition(".") if kind == "imagine" else (rest, "", "")
        begun = time.perf_counter()
        work = {
            "clone": lambda: self._clone(whom),
            "log": lambda: self._play(whom, self.log(whom), self.plan.repeats.get(whom, 1), LOG_SEED),
            "truth": lambda: self._play(whom, self.work / "truth" / whom, self.plan.truth, TRUTH_SEED),
            "fit": lambda: self._fit(whom),
            "score": lambda: self._score(whom),
            "refit": lambda: self._refit(int(whom)),
            "imagine": lambda: self._imagine(whom, model),
            "evaluate": lambda: self._evaluate(whom),
        }
        if kind not in work:
            from adwm_cell import baselines, cell, timing

            work = {"cell": lambda: cell(self), "baselines": lambda: baselines(self), "timing": lambda: timing(self)}
        content = work[kind]()
        files.write_json(self.path(name), {**content, "seconds": time.perf_counter() - begun, "device": _device()})

    def done(self, name: str) -> bool:
        """Whether a part has its result; a clone, also its weights, which nobody carries to another machine.

        An evaluation is done again where more targets can be judged by now.
        """
        kind, _, whom = name.partition(".")
        if kind == "evaluate" and self.path(name).exists():
            policies = self.result(name)["evaluation"]["policies"]
            return {policy["name"] for policy in policies} >= set(self.judged(whom))
        return self.path(name).exists() and (kind != "clone" or (self.work / f"clone-{whom}" / "model").is_dir())

    def path(self, name: str) -> Path:
        return self.results / f"{name}.json"

    def result(self, name: str) -> dict[str, Any]:
        """What a finished part says; empty where it is not finished."""
        path = self.path(name)
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}

    @cached_property
    def world(self) -> World:
        return envs.load(self.given.env, self.given.data, dict(self.plan.options))

    def source(self, name: str) -> PolicySource:
        player, given, plan = self.plan.player(name), self.given, self.plan
        if not isinstance(player, Agent):
            return player
        run = self.work / f"clone-{player.clone}"
        folder = run / "model"
        if player.checkpoint is not None and (run / "checkpoints").is_dir():
            folder = sorted((run / "checkpoints").iterdir())[player.checkpoint - 1]
        settings = PolicyConfig(
            mode=player.mode,
            temperature=player.temperature,
            history=player.history,
            max_new_tokens=plan.tokens,
            max_prompt_tokens=plan.context,
            dtype=player.dtype,
            device=given.device,
            cache_gib=given.cache_gib,
            batch_tokens=given.batch_tokens,
        )
        return ClonedPolicy(folder, settings, player.epsilon, f"{player} of {plan.clones[player.clone]} {plan.context}")

    def log(self, logger: str) -> Path:
        return self.work / "log" / logger

    def model(self, model: str) -> Path:
        """The folder of a world model."""
        return self.work / f"wm-{model}"

    def _clone(self, name: str) -> dict[str, Any]:
        clone, folder, demonstrations = self.plan.clones[name], self.work / f"clone-{name}", self.work / f"won-{name}"
        if not demonstrations.is_dir():  # made beforehand, or by a run that was interrupted
            demonstrate(self.world, demonstrations, clone.walkthroughs, self.plan.walkthroughs)
        config = SftConfig(
            source=str(demonstrations),
            out=folder,
            model=self.given.model,
            episodes=clone.walkthroughs,
            epochs=clone.epochs,
            learning_rate=clone.rate,
            checkpoints=clone.checkpoints,
            context=self.plan.context,
            seed=clone.seed,
            lora=clone.lora,
            device=self.given.device,
            overwrite=True,
        )
        done = sft(config)
        files.delete(folder / "training_state.pt")
        return {"cloning": vars(clone), **{n: done.summary()[n] for n in ("episodes", "updates", "tokens", "loss")}}

    def _play(self, name: str, folder: Path, repeats: int, seed: int) -> dict[str, Any]:
        policy = self.source(name).load(self.world)
        begun = time.perf_counter()
        episodes = collect_tasks(
            self.world,
            policy,
            name=name,
            split=self.plan.split,
            tasks=self.plan.tasks,
            repeats=repeats,
            seed=seed,
            batch_size=self.given.batch_size,
            out=folder,
        )
        return {"playing_seconds": time.perf_counter() - begun, **summary(episodes)}

    def _fit(self, model: str) -> dict[str, Any]:
        logs = tuple(self.log(name) for name in self.plan.loggers)
        settings: dict[str, Any] = {"members": 0, "seed": int(model)} if model.isdigit() else {"members": 1}
        if model == PAPER:
            settings |= {"preset": "paper", "rivals": False, "replayed_episodes": 0}
        if not model.isdigit():
            settings |= {"left_out": False, **self.plan.fit}
        out = self.model(model)
        begun = time.perf_counter()
        jobs = os.cpu_count()
        fitted = fit(FitConfig(log=logs, out=out, device=self.given.device, jobs=jobs, overwrite=True, **settings))
        seconds = time.perf_counter() - begun
        figures = {name: _finite(value) for name, value in fitted.figures.items()}
        curves = json.loads((out / HORIZON).read_text(encoding="utf-8"))["curves"]
        return {"fit_seconds": seconds, "figures": figures, "notes": list(fitted.notes), "curves": curves}

    def evaluation(self, model: str | None, **more: Any) -> EvaluateConfig:
        """The settings of an evaluation, the same in every part: they decide what is in the cache."""
        return EvaluateConfig(
            log=tuple(self.log(name) for name in self.plan.loggers),
            env=self.given.env,
            data=self.given.data,
            options=dict(self.plan.options),
            world_model=None if model is None else self.model(model),
            interface="auto" if model is None else "text",
            rollouts=self.plan.rollouts,
            imagined_at_once=self.given.batch_size,
            refit_estimators=KERNEL[:1],
            device=self.given.device,
            cache=self.work / "cache",
            **more,
        )

    def case(self, model: str | None, *names: str) -> Case:
        """The case of an evaluation with some of its policies alone."""
        loggers = {name: self.source(name) for name in names if name in self.plan.loggers}
        targets = {name: self.source(name) for name in names if name not in loggers}
        return Case(self.evaluation(model), targets, loggers, lambda what, done, total: None)

    def _score(self, name: str) -> dict[str, Any]:
        """Of a logger: whether it is still the one that logged."""
        case = self.case(None, name)
        loggers = case.loggers
        for candidate in case.candidates:
            case.target(candidate)
        return {"is_the_logger": name in loggers if name in self.plan.loggers else None, "notes": case.notes}

    def worlds(self, model: str) -> tuple[str, ...]:
        """The estimators that are played in one model; the bag is the same in all."""
        return self.plan.rivals if model == NETWORKS else KERNEL if model == "0" else KERNEL[:1]

    def _imagine(self, name: str, model: str) -> dict[str, Any]:
        """A target from all starts of the log; a logger from its own, for the null test."""
        case = self.case(model, name)
        world = WorldModelEstimators(case, Ensemble.load(self.model(model), self.given.device))
        rows: dict[str, Any] = {}
        for estimator in self.worlds(model):
            begun = time.perf_counter()
            if name in self.plan.loggers:
                rows[estimator] = {"value": world.null_trial(name, [estimator]).estimates[estimator].value}
            else:
                imagined = world.imagined(case.candidates[0], estimator)
                share = imagined.support.unsupported / max(1, imagined.support.steps)
                rows[estimator] = {"value": float(imagined.values.mean()), "unsupported": share}
                rows[estimator]["episodes"] = len(imagined.trajectories)
                rows[estimator]["steps"] = sum(map(len, imagined.trajectories))
                rows[estimator] |= consistency(self.world, imagined.trajectories)
            rows[estimator]["seconds"] = time.perf_counter() - begun
        return {"imagined": rows}

    def _refit(self, fold: int) -> dict[str, Any]:
        """Half of the loggers in a world model of the others' episodes; `evaluate` reads it from the cache."""
        case = self.case("0", *self.plan.loggers)
        world = WorldModelEstimators(case, Ensemble.load(self.model("0"), self.given.device))
        trials = world.leave_out_fold(fold, KERNEL[:1])
        return {"trials": {trial.policy: [trial.truth, trial.estimates[KERNEL[0]].value] for trial in trials}}

    def judged(self, model: str) -> list[str]:
        """The targets that were played in truth and in this model, and whose log-probs of the log are there."""
        named = ["truth.{}", "score.{}", *([] if model == CLASSICAL else [f"imagine.{{}}.{model}"])]
        return [name for name in self.plan.targets if all(self.result(part.format(name)) for part in named)]

    def _evaluate(self, model: str) -> dict[str, Any]:
        names = self.judged(model)
        if len(names) < 2:
            imagined = "" if model == CLASSICAL else f" and values of world model {model}"
            raise InputError(f"{self.results}: fewer than two targets have a truth, log-probs{imagined}")
        truth = self.work / f"truth-{model}.json"
        rows = [{"name": name, "epsilon": 0.0, "value": self.result(f"truth.{name}")["value"]} for name in names]
        files.write_json(truth, {"policies": rows})
        classical = self.plan.classical if model in ("0", CLASSICAL) else DEFAULT
        if model == CLASSICAL:
            config = self.evaluation(None, truth=truth, estimators=classical)
        else:
            corrected = ("am-dr",) if model == NETWORKS else ("wm-dr", "wm-magic")
            estimators = (*classical, *self.worlds(model), *corrected)
            refit = model != NETWORKS and all(self.result(f"refit.{fold}") for fold in range(FOLDS))
            config = self.evaluation(model, truth=truth, estimators=estimators, refit=refit)
        loggers = {name: self.source(name) for name in self.plan.loggers}
        evaluation = evaluate(config, {name: self.source(name) for name in names}, loggers=loggers)
        best: dict[str, float] = {}
        for logger in self.plan.loggers:
            for task, value in self.result(f"log.{logger}")["returns"]:
                best[task] = max(best.get(task, -np.inf), value)
        return {"best_logged": float(np.mean([*best.values()])), "evaluation": evaluation.as_dict()}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _device() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
