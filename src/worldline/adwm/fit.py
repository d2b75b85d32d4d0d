"""`worldline fit`: a log in, a world model out.

Reads and checks the log, learns what it says as text, trains the members one after the other (each holds out other
tasks), fits their narrators, calibrates their heads on what they held out, and measures all of it there. A run
that was interrupted goes on with `--resume`, at the epoch it had reached.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from worldline import files, store
from worldline.adwm.calibration import area_under_curve, calibration_error, fit_platt
from worldline.adwm.ensemble import (
    FIGURES,
    Ensemble,
    Member,
    answer_latents,
    calibrated,
    chosen_device,
    drawn_latents,
    finished,
    head_readings,
    load_member,
    member_folder,
    save_log,
    save_member,
)
from worldline.adwm.episodes import EpisodeData, check, facts_of, read_episode
from worldline.adwm.model import MAX_TABLE, PRESETS, Architecture, WorldModel, model_card
from worldline.adwm.outcome_head import Heads
from worldline.adwm.replay import horizon_curves
from worldline.adwm.rivals.latent import Rivals, pairs
from worldline.adwm.training import Schedule, effective_rank, latents, priors, train
from worldline.config import Config, Folder, option, positional
from worldline.narrator.log_model import Exercises, Lore
from worldline.narrator.narrator import Narrator
from worldline.run_folder import Run
from worldline.types import Trajectory, derive_seed

ADJUSTABLE = {"out", "device", "resume", "overwrite"}
FOLDS = 5
HORIZON = "horizon.json"
Watch = Callable[[dict[str, Any]], None]

RECIPES: dict[str, Schedule] = {
    "paper": Schedule(),
    "small": Schedule(epochs=10, batch=32, rate=2e-3, patience=3),
    "base": Schedule(epochs=30, batch=32, rate=1e-3, patience=5),
}


class FitConfig(Config):
    """Fit a diffusion world model on a log, for `worldline evaluate`.

    Three members that hold out different tasks are trained; what they say of held-out tasks is reported and kept.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline fit logs/ --out wm/",
        "worldline fit logs/ --preset base --members 3 --out wm/",
        "worldline fit logs/ --preset paper --members 1 --out wm-paper/",
    )

    log: tuple[Path, ...] = positional(help="folders of logs, or run folders")
    out: Folder = option(help="folder of the world model")
    preset: Literal["small", "base", "paper"] = option("small", help="size: small (CPU), base, or the paper's network")
    members: int = option(3, help="ensemble size", ge=1, le=FOLDS)
    latent: int | None = option(None, help="dimensions of a latent; default: the preset's", ge=2)
    epochs: int | None = option(None, help="at most this many epochs; default: the preset's", ge=1)
    batch: int | None = option(None, help="episodes per update; default: the preset's", ge=1)
    rate: float | None = option(None, help="learning rate; default: the preset's", gt=0)
    text_steps: int = option(4000, help="logged steps the text side is fitted on", ge=1)
    rivals: bool = option(True, help="fit wm-ar, wm-joint and wm-knn on the same latents, to compare with")
    horizon: int = option(64, help="held-out episodes replayed for the horizon curves; 0: none", ge=0)
    seed: int = option(0, help="decides every random draw")
    device: str = option("auto", help="auto: a GPU where there is one")
    resume: bool = option(False, help="go on with a fit that was interrupted")
    overwrite: bool = option(False, help="throw away what the folder holds")

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
    figures: dict[str, float]
    notes: list[str]


def fit(config: FitConfig, watch: Watch = lambda row: None) -> Fitted:
    """Fit on the log in `config.log` and keep everything in `config.out`."""
    run = Run(
        config,
        config.out,
        "world model",
        resume=config.resume,
        overwrite=config.overwrite,
        adjustable=ADJUSTABLE,
        inputs={str(log): files.digest(store.shards(log)) for log in config.log},
    )
    episodes = list(store.read(config.log))
    notes = check(episodes)
    run.goes_on()
    with run.opened():
        return fit_episodes(episodes, config, watch, notes)


def fit_episodes(
    episodes: Sequence[Trajectory], config: FitConfig, watch: Watch = lambda row: None, notes: Sequence[str] = ()
) -> Fitted:
    """The same, from episodes in memory."""
    architecture, facts = config.architecture, facts_of(episodes)
    lore = Lore.of(episodes, architecture.wide)
    save_log(lore, config.out)
    device = chosen_device(config.device)
    counted = Counter(step.action for episode in episodes for step in episode.steps)
    table = () if architecture.text else tuple(action for action, _ in counted.most_common(MAX_TABLE))
    first = WorldModel(architecture, facts, table)
    evidence = lore.evidence if architecture.text else None
    data = [read_episode(first, episode, number, evidence) for number, episode in enumerate(episodes)]
    folds = _folds(data, config.seed)
    exercises = Exercises.of(lore, steps=config.text_steps, seed=derive_seed(config.seed, "exercises"))
    members, measured = [], []
    for index in range(config.members):
        held_out = folds[index % len(folds)]
        folder = member_folder(config.out, index)
        if finished(config.out, index):
            member = load_member(folder, lore, device)
        else:
            torch.manual_seed(derive_seed(config.seed, "member", index))
            model = WorldModel(architecture, facts, table).to(device)
            member = _fit_member(model, lore, exercises, data, held_out, config, index, watch)
            save_member(member, folder)
        figures = measure(member, [data[n] for n in held_out])
        card = model_card(member.model, figures)
        (folder / "README.md").write_text(card, encoding="utf-8")
        members.append(member)
        measured.append(figures)
    figures = {name: _mean([one[name] for one in measured]) for name in measured[0]}
    curves = horizon_curves(Ensemble(tuple(members), lore), episodes=config.horizon, seed=config.seed)
    if "adwm" in curves:
        figures["replay_error"] = curves["adwm"].value_error
    _write(config.out / HORIZON, {"curves": {name: asdict(curve) for name, curve in curves.items()}})
    _write(config.out / FIGURES, {"figures": figures, "notes": list(notes)})
    return Fitted(Ensemble(tuple(members), lore, figures.get("replay_error", 0.0)), figures, list(notes))


def _write(path: Path, content: dict[str, Any]) -> None:
    """JSON has no NaN: what is not known is null."""
    plain = json.loads(json.dumps(content), parse_constant=lambda name: None)
    path.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


def _fit_member(
    model: WorldModel,
    lore: Lore,
    exercises: Exercises,
    data: Sequence[EpisodeData],
    held_out: Sequence[int],
    config: FitConfig,
    index: int,
    watch: Watch,
) -> Member:
    """Networks first, then the narrator on latents they draw, then the calibration of the heads."""
    seed = derive_seed(config.seed, "fit", index)
    apart = set(held_out)
    training = [one for one in data if one.number not in apart]
    tested = [data[n] for n in held_out]

    def watched(row: dict[str, Any]) -> None:
        row = {"member": index, **row}
        with (config.out / "metrics.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(row) + "\n")
        watch(row)

    checkpoint = config.out / "checkpoints" / f"member-{index}.pt"
    train(model, training, tested, config.schedule, seed=seed, checkpoint=checkpoint, watch=watched)
    narrator = Narrator(lore, model.architecture.latent)
    narrator.latents.copy_(answer_latents(model, data))
    drawn = drawn_latents(model, data, seed=seed)
    narrator.fit(exercises, [one.number for one in training], drawn, seed=seed)
    before = priors(training, config.schedule.success_share)
    held = tuple(sorted({one.task for one in tested}))
    heads = calibrated(model, tested, before) if model.architecture.text else Heads(priors=before, held_out=held)
    checkpoint.unlink(missing_ok=True)
    rivals = None
    if config.rivals:
        rivals = Rivals(model, len(lore.memory.transitions)).to(model.device)
        rivals.fit(pairs(model, training), pairs(model, data), seed)
    return Member(model, narrator.eval(), heads, rivals)


def measure(member: Member, held_out: Sequence[EpisodeData]) -> dict[str, float]:
    """What a member says of tasks it was not trained on: do its heads discriminate, and mean what they say?"""
    seen = head_readings(member.model, member.heads, held_out)
    told = member.heads.calibrated(seen.logits)
    hazard = told.hazard.numpy()
    slope = fit_platt(seen.logits.hazard, seen.ended, prior=1e-6).slope if seen.ended.any() else float("nan")
    at_end = seen.ended > 0
    return {
        "effective_rank": effective_rank(latents(member.model, held_out, 32)),
        "hazard_auc": area_under_curve(hazard, seen.ended),
        "hazard_slope": slope,
        "hazard_ece": calibration_error(hazard, seen.ended),
        "hazard_nats": float(-np.mean(np.log(np.where(at_end, hazard, 1 - hazard).clip(1e-9)))),
        "reward_at_end_error": float(np.abs(told.reward_at_end.numpy() - seen.rewards)[at_end].mean())
        if at_end.any()
        else float("nan"),
        "ends_predicted": float(hazard.sum()),
        "ends_seen": float(seen.ended.sum()),
    }


def _mean(values: Sequence[float]) -> float:
    """Of the values there are."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


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
