"""What each part of the method is worth: the ablations of the paper's figure 4 and appendix H.2, and our own choices.

On the log, the targets and the truth of `bench rank`, in the same folder. Rows that need a policy's weights (adapter,
continuation) are over the world's language models, and stand below the same world model read as text by the same
policies from the same tasks.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from worldline import files
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitSettings, fit_ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.soft_tokens.connect import connect
from worldline.adwm.value import imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.bench import Figures, rank
from worldline.bench.experiment import Experiment, read_settings
from worldline.config import Config, Folder, option, suggest
from worldline.ope.agreement import spearman
from worldline.types import InputError, Policy, Trajectory

Env = Literal["household", "shop", "searchqa"]
PAPER = IMAGINATION_PRESETS["adwm-paper"]
GUIDED = replace(PAPER, steps=10, eta=0.0)
"""The paper's way of imagining in as many diffusion steps as ours: each asks a language model for a gradient."""


@dataclass(frozen=True)
class Variant:
    """One row: how to imagine, how policies perceive it, what the world model is fitted on, and who is judged."""

    imagination: ImaginationConfig = IMAGINATION_PRESETS["adwm"]
    interface: Literal["text", "soft", "distilled"] = "text"
    loggers: int = 3
    latent: int | None = None
    over: Literal["targets", "language models"] = "targets"


VARIANTS: dict[str, Variant] = {
    "adwm": Variant(),
    "adwm, DDPM-50": Variant(replace(IMAGINATION_PRESETS["adwm"], steps=50, eta=1.0)),
    "adwm, with CFG": Variant(replace(IMAGINATION_PRESETS["adwm"], w=0.5)),
    "adwm, one behaviour policy": Variant(loggers=1),
    "adwm, d_z halved": Variant(latent=16),
    "paper, no adapter": Variant(replace(PAPER, alpha=0.0)),
    "paper, no adapter, no CFG": Variant(replace(PAPER, alpha=0.0, w=0.0)),
    "language models: adwm": Variant(over="language models"),
    "language models: adwm, soft tokens": Variant(interface="soft", over="language models"),
    "language models: adwm, distilled": Variant(interface="distilled", over="language models"),
    "language models: paper, no adapter": Variant(replace(GUIDED, alpha=0.0), over="language models"),
    "language models: paper, no continuation": Variant(replace(GUIDED, alpha=0.0), "soft", over="language models"),
    "language models: paper, no CFG": Variant(replace(GUIDED, w=0.0), "soft", over="language models"),
    "language models: paper": Variant(GUIDED, "soft", over="language models"),
}


class AblateBenchConfig(Config):
    """Rank correlation and error of ablations of the world model, on the worlds and policies of bench rank."""

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench ablate --out bench-rank",
        "worldline bench ablate --envs household --tasks 32",
    )

    envs: tuple[Env, ...] = option(("household", "shop", "searchqa"), help="which worlds", min_length=1)
    variants: tuple[str, ...] = option(tuple(VARIANTS), help="which rows", min_length=1)
    tasks: int = option(96, help="tasks imagined for each policy", ge=4)
    guided: int = option(24, help="tasks imagined for each language model (its gradients may be needed)", ge=4)
    seed: int = option(0, help="seed of world models and imagination")
    out: Folder = option(Path("bench-rank"), help="the folder of bench rank: what is there is used again")


Settings = AblateBenchConfig


def run(settings: AblateBenchConfig) -> Figures:
    for name in settings.variants:
        if name not in VARIANTS:
            raise InputError(f"--variants: there is no '{name}'{suggest(name, list(VARIANTS))}")
    rows: list[dict[str, Any]] = [{"variant": name} for name in settings.variants]
    for env in settings.envs:
        experiment = _experiment(env, settings.out)
        for row in rows:
            measured = _kept(row["variant"], experiment, settings)
            row |= {f"{env} {measure}": value for measure, value in measured.items()}
            print(f"{env}, {row['variant']}: {measured}", file=sys.stderr, flush=True)
    figures = {
        f"{row['variant']} {key}": value for row in rows for key, value in row.items() if isinstance(value, float)
    }
    return Figures(figures, rows)


def _experiment(env: Env, out: Path) -> Experiment:
    """As `bench rank` made it, or as it would make it."""
    experiment = rank.experiment_of(rank.RankBenchConfig(env=env, out=out, **read_settings(out / env)))
    experiment.claim()
    return experiment


def _kept(name: str, experiment: Experiment, settings: AblateBenchConfig) -> dict[str, float | None]:
    """A row's measures in one world; measured now unless they were before, with the same settings."""
    path = experiment.out / "ablate" / "rows.json"
    rows: dict[str, dict[str, float | None]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    variant = VARIANTS[name]
    tasks = f"{settings.tasks} and {settings.guided} tasks"
    key = f"{variant}, {tasks}, seed {settings.seed}, over {', '.join(_policies(variant, experiment))}"
    if key not in rows:
        rows[key] = _measured(variant, experiment, settings)
        files.write_json(path, rows)
    return rows[key]


def _policies(variant: Variant, experiment: Experiment) -> list[str]:
    return list(experiment.suite.targets) if variant.over == "targets" else experiment.suite.with_gradients


def _measured(variant: Variant, experiment: Experiment, settings: AblateBenchConfig) -> dict[str, float | None]:
    folder, loggers = experiment.out / "ablate", list(experiment.suite.loggers)[: variant.loggers]
    log = [episode for name in loggers for episode in experiment.play(name)]
    ensemble = _fitted(variant, log, folder, settings)
    starts = _starts(log, settings.tasks if variant.over == "targets" else settings.guided)
    names = _policies(variant, experiment)
    policies = (experiment.source(name).load(experiment.world) for name in names)
    imagined = np.array([_imagined(policy, variant, ensemble, starts, folder, settings) for policy in policies])
    true = np.array([experiment.value(name) for name in names])
    for name, value, real in zip(names, imagined, true, strict=True):
        print(f"  {name}: {value:.4f}, really {real:.4f}", file=sys.stderr, flush=True)
    return {
        "spearman": spearman(imagined, true),
        "mae": float(np.abs(imagined - true).mean()),
        "policies": len(names),
    }


def _imagined(
    policy: Policy,
    variant: Variant,
    ensemble: Ensemble,
    starts: Sequence[Trajectory],
    folder: Path,
    settings: AblateBenchConfig,
) -> float:
    connection = connect(policy, ensemble, variant.interface, folder=folder / "adapters", seed=settings.seed)
    guide = connection.guide if variant.imagination.alpha else None
    world = ImaginedWorld(ensemble, variant.imagination, guide, starts)
    return float(imagine(world, connection.policy, rollouts=1, seed=settings.seed).values.mean())


def _starts(log: Sequence[Trajectory], tasks: int) -> list[Trajectory]:
    first = {episode.task_id: episode for episode in reversed(log)}
    return list(first.values())[:tasks]


def _fitted(variant: Variant, log: Sequence[Trajectory], folder: Path, settings: AblateBenchConfig) -> Ensemble:
    """One member for each way of fitting, made once."""
    out = folder / f"{variant.loggers}-loggers-{variant.latent or 'full'}-{settings.seed}"
    if (out / "figures.json").is_file():
        return Ensemble.load(out)
    fitting = FitSettings(members=1, rivals=False, replayed_episodes=0, latent=variant.latent, seed=settings.seed)
    fitted = fit_ensemble(log, fitting)
    fitted.save(out)
    return fitted.ensemble
