"""`worldline fit`: a log in, a world model out.

`fit_ensemble` is a function of episodes and settings alone. It learns what the log says as text, trains the members one
after the other (each holds out other tasks), fits their narrators, calibrates their heads on what they held out, and
measures all of it there. `fit` does the same for the command: it reads the log, keeps every member in a folder as soon
as it is fitted, and goes on with `--resume` at the epoch it had reached.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from worldline import files, metrics, store
from worldline.adwm.calibration import area_under_curve, calibration_error, fit_platt
from worldline.adwm.ensemble import (
    FIGURES,
    Ensemble,
    Member,
    answer_latents,
    calibrated,
    drawn_latents,
    head_readings,
    load_member,
    member_folder,
    save_kernel,
    save_log,
    save_member,
)
from worldline.adwm.episodes import EpisodeData, check, facts_of, read_episode
from worldline.adwm.model import MAX_TABLE, PRESETS, Architecture, LogFacts, WorldModel, model_card
from worldline.adwm.outcome_head import CalibratedHeads
from worldline.adwm.replay import Curve, horizon_curves
from worldline.adwm.rivals.latent import Rivals, pairs
from worldline.adwm.training import Schedule, effective_rank, latents, priors, train
from worldline.config import Config, Folder, option, positional
from worldline.kernel.bag import Bag
from worldline.kernel.fitting import fit_kernel
from worldline.kernel.model import KernelModel
from worldline.kernel.replay import replay_error
from worldline.narrator.log_model import Exercises, LogModel
from worldline.narrator.narrator import Narrator
from worldline.notebook import html_table
from worldline.policies.language_model.device import usable_device
from worldline.run_folder import Run
from worldline.types import Trajectory, derive_seed

FOLDS = 5
HORIZON, METRICS = "horizon.json", "metrics.jsonl"
KERNEL_FIGURES = "kernel.json"
WIDE, NARROW = 0.1, 0.02
"""Shares of the range of rewards: an error in replay that is large, and one that is larger than the bag's."""
ADJUSTABLE = {"out", "device", "resume", "overwrite"}
Watch = Callable[[dict[str, Any]], None]

RECIPES: dict[str, Schedule] = {
    "paper": Schedule(),
    "small": Schedule(epochs=10, batch=32, rate=2e-3, patience=3),
    "base": Schedule(epochs=30, batch=32, rate=1e-3, patience=5),
}


class FitSettings(Config):
    """What is fitted, and how: with the episodes of a log they decide a world model to the last digit."""

    renamed: ClassVar[dict[str, str]] = {"horizon": "replayed_episodes"}

    preset: Literal["small", "base", "paper"] = option("small", help="size: small (CPU), base, or the paper's network")
    members: int = option(3, help="ensemble size of adwm; 0: no networks, wm alone", ge=0, le=FOLDS)
    kernel: bool = option(True, help="fit wm, the kernel over the log's steps")
    latent: int | None = option(None, help="dimensions of a latent; default: the preset's", ge=2)
    epochs: int | None = option(None, help="at most this many epochs; default: the preset's", ge=1)
    batch: int | None = option(None, help="episodes per update; default: the preset's", ge=1)
    rate: float | None = option(None, help="learning rate; default: the preset's", gt=0)
    text_steps: int = option(4000, help="logged steps the text side is fitted on", ge=1)
    rivals: bool = option(True, help="fit wm-ar, wm-joint and wm-knn on the same latents, to compare with")
    replayed_episodes: int = option(64, help="held-out episodes replayed for the error by horizon; 0: none", ge=0)
    seed: int = option(0, help="decides every random draw")
    device: str = option("auto", help="auto: a GPU where there is one")

    @property
    def architecture(self) -> Architecture:
        given = {} if self.latent is None else {"latent": self.latent}
        return PRESETS[self.preset].model_copy(update=given)

    @property
    def schedule(self) -> Schedule:
        given = {"epochs": self.epochs, "batch": self.batch, "rate": self.rate}
        return RECIPES[self.preset].model_copy(update={name: v for name, v in given.items() if v is not None})


@dataclass(frozen=True)
class Fitted:
    """A world model, what was measured on held-out tasks, and what is thin about its log."""

    ensemble: Ensemble
    member_figures: tuple[dict[str, float], ...]
    curves: dict[str, Curve]
    notes: tuple[str, ...] = ()
    kernel_figures: dict[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """Those of the kernel model, means over the members, and the error of replayed values."""
        names = self.member_figures[0] if self.member_figures else ()
        means = {name: _mean([figures[name] for figures in self.member_figures]) for name in names}
        replayed = {"replay_error": self.curves["adwm"].value_error} if "adwm" in self.curves else {}
        return self.kernel_figures | means | replayed

    def _repr_html_(self) -> str:
        rows = [(name.replace("_", " "), f"{value:.4g}") for name, value in self.figures.items()]
        return html_table("world model, measured on held-out tasks", ("figure", "value"), rows)

    def save(self, folder: Path) -> None:
        """All that `Ensemble.load` and `worldline report` read."""
        members = zip(self.ensemble.members, self.member_figures, strict=True)
        self.ensemble.save(folder, cards=[model_card(member.model, figures) for member, figures in members])
        self.save_figures(folder)

    def save_figures(self, folder: Path) -> None:
        """What was measured. It is written last: a folder with it holds a finished world model."""
        files.write_json(folder / HORIZON, {"curves": {name: asdict(curve) for name, curve in self.curves.items()}})
        files.write_json(folder / FIGURES, {"figures": self.figures, "notes": self.notes})


def fit_ensemble(episodes: Sequence[Trajectory], settings: FitSettings, watch: Watch = lambda row: None) -> Fitted:
    """A world model of `episodes`, in memory; `watch` hears of every epoch."""
    log = FittingLog.of(episodes, settings)
    fitted = log.measured([log.fit_member(index, watch) for index in range(settings.members)])
    if not settings.kernel:
        return fitted

    @cache
    def kernel() -> KernelModel:
        return fit_kernel(episodes, settings.seed, settings.text_steps)[0]

    return replace(fitted, ensemble=replace(fitted.ensemble, load_kernel=kernel))


@dataclass(frozen=True)
class FittingLog:
    """What the members of an ensemble share: the log as text and as numbers, and who holds out what."""

    settings: FitSettings
    log_model: LogModel
    facts: LogFacts
    actions: tuple[str, ...]
    """The paper's table of actions; empty where actions are read as text."""
    data: list[EpisodeData]
    folds: list[list[int]]
    exercises: Exercises
    device: str

    @classmethod
    def of(cls, episodes: Sequence[Trajectory], settings: FitSettings) -> "FittingLog":
        architecture, facts = settings.architecture, facts_of(episodes)
        log_model = LogModel.of(episodes, architecture.linear_buckets)
        counted = Counter(step.action for episode in episodes for step in episode.steps)
        actions = () if architecture.text else tuple(action for action, _ in counted.most_common(MAX_TABLE))
        reader = WorldModel(architecture, facts, actions)
        outcome_features = log_model.outcome_features if architecture.text else None
        data, exercises = [], Exercises([], [])
        if settings.members:
            data = [read_episode(reader, episode, number, outcome_features) for number, episode in enumerate(episodes)]
            exercises = Exercises.of(log_model, steps=settings.text_steps, seed=derive_seed(settings.seed, "exercises"))
        folds = _folds(data, settings.seed)
        return cls(settings, log_model, facts, actions, data, folds, exercises, usable_device(settings.device))

    def held_out(self, index: int) -> list[EpisodeData]:
        """The episodes that member `index` is not trained on."""
        return [self.data[number] for number in self.folds[index % len(self.folds)]]

    def fit_member(self, index: int, watch: Watch, checkpoint: Path | None = None) -> Member:
        """Networks first, then the narrator on latents they draw, the calibration of the heads, and the rivals.

        Training goes on from `checkpoint` where that is a file, and keeps its state there.
        """
        settings, seed = self.settings, derive_seed(self.settings.seed, "fit", index)
        tested = self.held_out(index)
        numbers = {one.number for one in tested}
        training = [one for one in self.data if one.number not in numbers]
        torch.manual_seed(derive_seed(settings.seed, "member", index))
        model = WorldModel(settings.architecture, self.facts, self.actions).to(self.device)
        schedule = settings.schedule
        train(
            model,
            training,
            tested,
            schedule,
            seed=seed,
            checkpoint=checkpoint,
            watch=lambda row: watch({"member": index, **row}),
        )
        narrator = Narrator(self.log_model, model.architecture.latent)
        narrator.latents.copy_(answer_latents(model, self.data))
        drawn = drawn_latents(model, self.data, seed=seed)
        narrator.fit(self.exercises, [one.number for one in training], drawn, seed=seed)
        before = priors(training, schedule.success_share)
        tasks = tuple(sorted({one.task for one in tested}))
        heads = (
            calibrated(model, tested, before)
            if model.architecture.text
            else CalibratedHeads(priors=before, held_out=tasks)
        )
        rivals = None
        if settings.rivals:
            rivals = Rivals(model, len(self.log_model.index.transitions)).to(model.device)
            rivals.fit(pairs(model, training), pairs(model, self.data), seed)
        return Member(model, narrator.eval(), heads, rivals)

    def measured(self, members: Sequence[Member]) -> Fitted:
        """The ensemble of these members, measured by what each held out."""
        figures = tuple(measure(member, self.held_out(index)) for index, member in enumerate(members))
        ensemble = Ensemble(tuple(members), self.log_model)
        replayed = self.settings.replayed_episodes if members else 0
        curves = horizon_curves(ensemble, episodes=replayed, seed=self.settings.seed)
        error = curves["adwm"].value_error if "adwm" in curves else 0.0
        return Fitted(replace(ensemble, replay_error=error), figures, curves)


def measure(member: Member, held_out: Sequence[EpisodeData]) -> dict[str, float]:
    """What a member says of tasks it was not trained on: do its heads discriminate, and mean what they say?"""
    seen = head_readings(member.model, member.heads, held_out)
    outcome = member.heads.calibrated(seen.logits)
    hazard = outcome.hazard.numpy()
    slope = fit_platt(seen.logits.hazard, seen.ended, prior=1e-6).slope if seen.ended.any() else float("nan")
    at_end = seen.ended > 0
    return {
        "effective_rank": effective_rank(latents(member.model, held_out, 32)),
        "hazard_auc": area_under_curve(hazard, seen.ended),
        "hazard_slope": slope,
        "hazard_ece": calibration_error(hazard, seen.ended),
        "hazard_nats": float(-np.mean(np.log(np.where(at_end, hazard, 1 - hazard).clip(1e-9)))),
        "reward_at_end_error": float(np.abs(outcome.reward_at_end.numpy() - seen.rewards)[at_end].mean())
        if at_end.any()
        else float("nan"),
        "ends_predicted": float(hazard.sum()),
        "ends_seen": float(seen.ended.sum()),
    }


def _mean(values: Sequence[float]) -> float:
    """Of the values there are."""
    finite = [value for value in values if not np.isnan(value)]
    return float(np.mean(finite)) if finite else float("nan")


def _folds(data: Sequence[EpisodeData], seed: int) -> list[list[int]]:
    """Episode numbers of each fold: whole tasks, or single episodes where there is only one task."""
    tasks = sorted({one.task for one in data})
    units = [[one.number for one in data if one.task == task] for task in tasks]
    if len(units) < 2:
        units = [[one.number] for one in data]
    rng = np.random.default_rng(derive_seed(seed, "folds"))
    order = rng.permutation(len(units))
    folds: list[list[int]] = [[] for _ in range(min(FOLDS, len(units)))]
    for at, unit in enumerate(order):
        folds[at % len(folds)] += units[unit]
    return folds


class FitConfig(FitSettings):
    """Fit world models on a log, for `worldline evaluate`.

    `wm` is a learned kernel over the log's steps. `adwm` is the diffusion model: three members are trained that hold
    out different tasks. What both say of held-out episodes is reported and kept.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline fit logs/ --out wm/",
        "worldline fit logs/ --members 0 --out wm/",
        "worldline fit logs/ --preset base --members 3 --out wm/",
        "worldline fit logs/ --preset paper --members 1 --out wm-paper/",
    )

    log: tuple[Path, ...] = positional(help="folders of logs, or run folders")
    out: Folder = option(help="folder of the world model")
    resume: bool = option(False, help="go on with a fit that was interrupted")
    overwrite: bool = option(False, help="throw away what the folder holds")


def fit(config: FitConfig, watch: Watch = lambda row: None) -> Fitted:
    """Fit on the log in `config.log` and keep everything in `config.out`."""
    inputs = {str(folder): files.digest(store.shards(folder)) for folder in config.log}
    run = Run(config, "world model", ADJUSTABLE, inputs)
    run.goes_on()
    episodes = list(store.read(config.log))
    notes = check(episodes)
    with run.opened():
        log = FittingLog.of(episodes, config)
        save_log(log.log_model, config.out)
        torn: list[str] = []
        figures = _kept_kernel(episodes, config) if config.kernel else {}
        notes += kernel_notes(figures, log.facts)
        members = [_kept_member(log, index, config.out, watch, torn) for index in range(config.members)]
        fitted = replace(log.measured(members), notes=tuple(notes), kernel_figures=figures)
        fitted.save_figures(config.out)
    return replace(fitted, notes=(*notes, *torn))


def _kept_kernel(episodes: Sequence[Trajectory], config: FitConfig) -> dict[str, float]:
    """The kernel model, fitted and saved in the run's folder unless it is there; what was measured of it."""
    path = config.out / KERNEL_FIGURES
    if not path.is_file():
        model, figures = fit_kernel(episodes, config.seed, config.text_steps)
        order = np.random.default_rng(derive_seed(config.seed, "replay")).permutation(len(episodes))
        numbers = order[: config.replayed_episodes].tolist()
        if numbers:
            figures["replay error"] = replay_error(model, numbers, config.seed)
            figures["replay error of the bag"] = replay_error(Bag(model.log), numbers, config.seed)
        save_kernel(model, config.out)
        files.write_json(path, {f"wm_{name.replace(' ', '_')}": value for name, value in figures.items()})
    content: dict[str, float] = json.loads(path.read_text(encoding="utf-8"))
    return content


def kernel_notes(figures: Mapping[str, float], facts: LogFacts) -> list[str]:
    """What its figures say against the kernel model."""
    error, bag = figures.get("wm_replay_error"), figures.get("wm_replay_error_of_the_bag")
    left_out = figures.get("wm_left_out_error")
    span = facts.reward_high - facts.reward_low
    notes = []
    if error is not None and error > WIDE * span:
        notes.append(f"wm misses the log's own returns by {error:.3g} in replay: do not trust its values")
    if error is not None and bag is not None and error > bag + NARROW * span:
        notes.append(f"wm does not beat the bag (wm-bag): their errors in replay are {error:.3g} and {bag:.3g}")
    if left_out is not None and left_out > WIDE * span:
        notes.append(
            f"wm misses the returns of policies left out of the log by {left_out:.3g} in replay: "
            "it may miss those of new policies as much"
        )
    if figures.get("wm_bag_leads"):
        notes.append("the bag values policies left out of the log better than the kernel does: wm answers as wm-bag")
    return notes


def _kept_member(log: FittingLog, index: int, out: Path, watch: Watch, notes: list[str]) -> Member:
    """Member `index` as it is in `out`, or fitted and saved there. Its checkpoint stays until it is saved."""
    folder, checkpoint = member_folder(out, index), out / f"training-{index}.pt"
    if folder.is_dir():
        member = load_member(folder, log.log_model, log.device)
    else:

        def record(row: dict[str, Any]) -> None:
            notes.extend(metrics.cut_back_before(out / METRICS, {"member": index, "epoch": row["epoch"]}))
            metrics.append(out / METRICS, row)
            watch(row)

        member = log.fit_member(index, record, checkpoint)
        save_member(member, folder, model_card(member.model, measure(member, log.held_out(index))))
    files.delete(checkpoint)
    return member
