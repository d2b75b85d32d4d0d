"""`worldline fit`: a log in, a world model out.

`fit_ensemble` is a function of episodes and settings alone. It fits the kernel model of the log's texts, then the
members one after the other: each trains its networks on other tasks, and its decoder on the tasks it holds out, where
all of it is measured. `fit` does the same for the command: it reads the log, keeps every part in a folder as soon as it
is fitted, and goes on with `--resume` at the epoch it had reached.

A log of more than `kernel_steps` steps is never held whole. The kernel model indexes a sample of it (`sample`), on
which everything is measured that looks at single steps; the networks train on all of it, streamed (`epochs`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from worldline import files, metrics, store
from worldline.adwm.decoder import answer_latents, fit_decoder
from worldline.adwm.ensemble import (
    FIGURES,
    Ensemble,
    Member,
    load_kernel,
    load_member,
    member_folder,
    new_decoder,
    possible_answers,
    read_figures,
    save_kernel,
    save_log,
    save_member,
)
from worldline.adwm.episodes import EpisodeData, read_episode
from worldline.adwm.fitting.epochs import HeldEpisodes, StreamedEpisodes, TrainingEpisodes
from worldline.adwm.fitting.log_source import FolderLog, MemoryLog, Numbers
from worldline.adwm.fitting.replay import Curve, horizon_curves
from worldline.adwm.fitting.sample import DrawnLog
from worldline.adwm.fitting.training import Schedule, effective_rank, latents, train, train_score
from worldline.adwm.fitting.weak_points import kernel_notes, latent_notes
from worldline.adwm.model import MAX_TABLE, PRESETS, Architecture, WorldModel
from worldline.adwm.rivals.latent import Rivals, pairs
from worldline.config import Config, Folder, option, positional
from worldline.kernel.bag import Bag
from worldline.kernel.fitting import Stage, fit_kernel, fit_once, unwatched
from worldline.kernel.model import KernelModel
from worldline.kernel.replay import replay_error
from worldline.notebook import html_table
from worldline.policies.language_model.device import usable_device
from worldline.run_folder import Run
from worldline.types import Trajectory, derive_seed

FOLDS = 5
HORIZON, METRICS = "horizon.json", "metrics.jsonl"
KERNEL_FIGURES = "kernel.json"
ADJUSTABLE = {"out", "device", "jobs", "resume", "overwrite"}
Watch = Callable[[dict[str, Any]], None]

RECIPES: dict[str, Schedule] = {
    "paper": Schedule(),
    "small": Schedule(epochs=20, batch=32, rate=2e-3, patience=3),
    "base": Schedule(epochs=30, batch=32, rate=1e-3, patience=5),
}


class FitSettings(Config):
    """What is fitted, and how: with the episodes of a log they decide a world model to the last digit."""

    absent: ClassVar[dict[str, str]] = {"horizon": "is now called --replayed-episodes"}

    preset: Literal["small", "base", "paper"] = option("small", help="size: small (CPU), base, or the paper's network")
    members: int = option(3, help="ensemble size of adwm; 0: no networks, wm alone", ge=0, le=FOLDS)
    latent: int | None = option(None, help="dimensions of a latent; default: the preset's", ge=2)
    epochs: int | None = option(None, help="at most this many epochs; default: the preset's", ge=1)
    batch: int | None = option(None, help="episodes per update; default: the preset's", ge=1)
    rate: float | None = option(None, help="learning rate; default: the preset's", gt=0)
    text_steps: int = option(4000, help="logged steps that wm is fitted on", ge=1)
    kernel_steps: int = option(
        50_000, help="logged steps that wm indexes at most, drawn evenly over tasks and loggers", ge=100
    )
    rivals: bool = option(True, help="fit wm-ar, wm-joint and wm-knn on the same latents, to compare with")
    left_out: bool = option(
        True,
        help="also fit wm without each policy in turn, which measures what it says of policies it has not seen; "
        "--no-left-out saves these fits",
    )
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
    curves: dict[str, Curve]
    notes: tuple[str, ...] = ()
    kernel_figures: dict[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """Those of the kernel model, means over the members, and what was measured in replay."""
        members = [member.figures for member in self.ensemble.members]
        means = {name: _mean([figures[name] for figures in members]) for name in (members[0] if members else ())}
        return self.kernel_figures | means | (_replayed(self.curves["adwm"]) if "adwm" in self.curves else {})

    def _repr_html_(self) -> str:
        rows = [(name.replace("_", " "), f"{value:.4g}") for name, value in self.figures.items()]
        return html_table("world model, measured on held-out tasks", ("figure", "value"), rows)

    def save(self, folder: Path) -> None:
        """All that `Ensemble.load` and `worldline report` read."""
        self.ensemble.save(folder)
        self.save_figures(folder)

    def save_figures(self, folder: Path) -> None:
        """What was measured. It is written last: a folder with it holds a finished world model."""
        files.write_json(folder / HORIZON, {"curves": {name: asdict(curve) for name, curve in self.curves.items()}})
        files.write_json(folder / FIGURES, {"figures": self.figures, "notes": self.notes})


def fit_ensemble(
    episodes: Sequence[Trajectory], settings: FitSettings, watch: Watch = lambda row: None, jobs: int = 1
) -> Fitted:
    """A world model of `episodes`, in memory; `watch` hears of every epoch, and `jobs` processes fit `wm`."""
    drawn = DrawnLog.of(MemoryLog(episodes), settings.kernel_steps, settings.seed, checked=False)
    kernel, figures = measured_kernel(drawn.episodes(), settings, jobs)
    log = FittingLog.of(kernel, drawn, settings)
    return log.measured([log.fit_member(index, watch) for index in range(settings.members)], figures)


def measured_kernel(
    episodes: Sequence[Trajectory], settings: FitSettings, jobs: int = 1, stage: Stage = unwatched
) -> tuple[KernelModel, dict[str, float]]:
    """The kernel model of the log, and what it and the bag are worth on held-out episodes and in replay."""
    fit = fit_kernel if settings.left_out else fit_once
    model, figures = fit(episodes, settings.seed, settings.text_steps, jobs, stage)
    order = np.random.default_rng(derive_seed(settings.seed, "replay")).permutation(len(episodes))
    numbers = order[: settings.replayed_episodes].tolist()
    if numbers:
        stage("wm: replaying episodes", 0, 2)
        figures["replay error"] = replay_error(model, numbers, settings.seed)
        stage("wm: replaying episodes", 1, 2)
        figures["replay error of the bag"] = replay_error(Bag(model.log), numbers, settings.seed)
    return model, {f"wm_{name.replace(' ', '_')}": value for name, value in figures.items()}


@dataclass(frozen=True)
class FittingLog:
    """What the members of an ensemble share: the log as text and as numbers, and who holds out what."""

    settings: FitSettings
    kernel: KernelModel
    log: DrawnLog
    actions: tuple[str, ...]
    """The paper's table of actions; empty where actions are read as text."""
    data: list[EpisodeData]
    """The episodes that the kernel model indexes."""
    folds: Numbers
    """The fold of every episode of the log."""
    device: str
    stage: Stage = unwatched
    """Hears of what takes long beside the epochs."""

    @classmethod
    def of(cls, kernel: KernelModel, log: DrawnLog, settings: FitSettings, stage: Stage = unwatched) -> "FittingLog":
        episodes, architecture = kernel.log.episodes, settings.architecture
        counted = Counter(step.action for episode in episodes for step in episode.steps)
        actions = () if architecture.text else tuple(action for action, _ in counted.most_common(MAX_TABLE))
        reader = WorldModel(architecture, log.survey.facts, actions)
        data = [read_episode(reader, *one) for one in zip(episodes, range(len(episodes)), strict=True)]
        return cls(
            settings,
            kernel,
            log,
            actions,
            data,
            log.survey.folds(FOLDS, settings.seed, log.numbers),
            usable_device(settings.device),
            stage,
        )

    def held_out(self, index: int) -> list[EpisodeData]:
        """The indexed episodes that member `index` is not trained on."""
        away = self.folds[self.log.numbers] == index % (self.folds.max() + 1)
        return [one for one in self.data if away[one.number]]

    def training(self, index: int, model: WorldModel) -> TrainingEpisodes:
        """The episodes of the whole log that member `index` is trained on."""
        away = self.folds == index % (self.folds.max() + 1)
        held = [one for one in self.data if not away[self.log.numbers[one.number]]]
        if self.log.sample is None:
            return HeldEpisodes(held)
        numbers = np.flatnonzero(~away)
        return StreamedEpisodes(self.log.source, model, numbers, self.log.survey.good[numbers], held)

    def fit_member(self, index: int, watch: Watch, checkpoint: Path | None = None) -> Member:
        """Networks first, then rivals on their latents, then the decoders of all on what was held out.

        Training goes on from `checkpoint` where that is a file, and keeps its state there.
        """
        settings, seed = self.settings, derive_seed(self.settings.seed, "fit", index)
        name = f"member {index + 1} of {settings.members}"
        tested = self.held_out(index)
        torch.manual_seed(derive_seed(settings.seed, "member", index))
        model = WorldModel(settings.architecture, self.log.survey.facts, self.actions).to(self.device)
        training = self.training(index, model)
        train(
            model,
            training,
            tested,
            settings.schedule,
            seed=seed,
            checkpoint=checkpoint,
            watch=lambda row: watch({"member": index, **row}),
        )
        taught = pairs(model, training.sample())
        if model.architecture.text:
            watched = partial(self.stage, f"{name}: score network")
            train_score(model, taught, pairs(model, tested), seed=seed, watch=watched)
        rivals = None
        if settings.rivals:
            rivals = Rivals(model, len(self.kernel.log)).to(model.device)
            rivals.fit(taught, pairs(model, self.data), seed, partial(self.stage, f"{name}: rivals"))
        decoder = new_decoder(model, self.kernel, rivals=settings.rivals)
        decoder.latents.copy_(answer_latents(model, self.data))
        watched = partial(self.stage, f"{name}: decoder")
        nats = fit_decoder(decoder, model, rivals, self.kernel, tested, seed, watched)
        tasks = tuple(sorted({one.task for one in tested}))
        rank = effective_rank(latents(model, tested, settings.schedule.batch))
        figures = {"effective_rank": rank} | {f"nats_{name}": value for name, value in nats.items()}
        return Member(model, decoder.eval(), tasks, figures, rivals)

    def measured(self, members: Sequence[Member], kernel_figures: dict[str, float]) -> Fitted:
        """The ensemble of these members, replayed by who held what out; the kernel model's figures are given."""
        possible = possible_answers(kernel_figures)
        ensemble = Ensemble(tuple(members), self.kernel, kernel_possible=possible, sample=self.log.sample)
        replayed = self.settings.replayed_episodes if members else 0
        watch = partial(self.stage, "replaying held-out episodes")
        curves = horizon_curves(ensemble, episodes=replayed, seed=self.settings.seed, watch=watch)
        error = curves["adwm"].value_error if "adwm" in curves else 0.0
        return Fitted(replace(ensemble, replay_error=error), curves, kernel_figures=kernel_figures)


def _replayed(curve: Curve) -> dict[str, float]:
    return {
        "hazard_auc": curve.termination_auc,
        "hazard_slope": curve.termination_slope,
        "hazard_ece": curve.termination_error,
        "replay_error": curve.value_error,
    }


def _mean(values: Sequence[float]) -> float:
    """Of the values there are."""
    finite = [value for value in values if not np.isnan(value)]
    return float(np.mean(finite)) if finite else float("nan")


class FitConfig(FitSettings):
    """Fit world models on a log, for `worldline evaluate`.

    `wm` is a learned kernel over the log's steps. `adwm` is the diffusion model, which chooses among the same answers:
    three members are trained that hold out different tasks. What both say of held-out episodes is reported and kept.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline fit logs/ --out wm/",
        "worldline fit logs/ --members 0 --out wm/",
        "worldline fit logs/ --preset base --members 3 --out wm/",
        "worldline fit logs/ --preset paper --members 1 --out wm-paper/",
    )

    log: tuple[Path, ...] = positional(help="folders of logs, or run folders")
    out: Folder = option(help="folder of the world model")
    jobs: int | None = option(None, help="processes that fit wm; default: one a core, from Python 1", ge=1)
    resume: bool = option(False, help="go on with a fit that was interrupted")
    overwrite: bool = option(False, help="throw away what the folder holds")


def fit(config: FitConfig, watch: Watch = lambda row: None, stage: Stage = unwatched) -> Fitted:
    """Fit on the log in `config.log` and keep everything in `config.out`.

    `watch` hears of every epoch, `stage` of all else that takes long.
    """
    inputs = {str(folder): files.digest(store.shards(folder)) for folder in config.log}
    run = Run(config, "world model", ADJUSTABLE, inputs)
    run.goes_on()
    drawn = DrawnLog.of(FolderLog.of(config.log), config.kernel_steps, config.seed)
    episodes, notes = drawn.episodes(), list(drawn.survey.notes)
    notes += [] if drawn.sample is None else [drawn.sample.note]
    with run.opened():
        save_log(episodes, config.out, drawn.sample)
        torn: list[str] = []
        kernel, figures = _kept_kernel(episodes, config, stage)
        log = FittingLog.of(kernel, drawn, config, stage)
        notes += kernel_notes(figures, drawn.survey.facts)
        members = [_kept_member(log, index, config.out, watch, torn) for index in range(config.members)]
        notes += latent_notes(members)
        fitted = replace(log.measured(members, figures), notes=tuple(notes))
        fitted.save_figures(config.out)
    return replace(fitted, notes=(*notes, *torn))


def _kept_kernel(
    episodes: Sequence[Trajectory], config: FitConfig, stage: Stage
) -> tuple[KernelModel, dict[str, float]]:
    """The kernel model, fitted and saved in the run's folder unless it is there; what was measured of it."""
    path = config.out / KERNEL_FIGURES
    if path.is_file():
        return load_kernel(config.out, episodes), read_figures(path, "delete it, and --resume fits wm anew")
    model, figures = measured_kernel(episodes, config, config.jobs or 1, stage)
    save_kernel(model, config.out)
    files.write_json(path, figures)
    return model, figures


def _kept_member(log: FittingLog, index: int, out: Path, watch: Watch, notes: list[str]) -> Member:
    """Member `index` as it is in `out`, or fitted and saved there. Its checkpoint stays until it is saved."""
    folder, checkpoint = member_folder(out, index), out / f"training-{index}.pt"
    if folder.is_dir():
        member = load_member(folder, log.kernel, log.device)
    else:

        def record(row: dict[str, Any]) -> None:
            notes.extend(metrics.cut_back_before(out / METRICS, {"member": index, "epoch": row["epoch"]}))
            metrics.append(out / METRICS, row)
            watch(row)

        member = log.fit_member(index, record, checkpoint)
        save_member(member, folder, log.log.sample)
    files.delete(checkpoint)
    return member
