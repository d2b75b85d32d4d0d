"""What each part of the method is worth: the ablations of the paper's figure 4 and appendix H.2, and our own choices.

On the log, the targets and the truth of `bench rank`, in the same folder. Rows that need a policy's weights (adapter,
continuation) are over the language models among the targets; scripted ones have none, and a world without language
models leaves those rows empty.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from worldline.adwm.channel import connect
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fit import FitConfig, fit_episodes
from worldline.adwm.imagine import MANNERS, Manner
from worldline.adwm.value import imagine
from worldline.bench import Figures, rank
from worldline.bench.cast import Clone
from worldline.bench.stage import Stage
from worldline.config import Config, option
from worldline.ope.agreement import spearman
from worldline.types import Trajectory

PAPER = MANNERS["adwm-paper"]


@dataclass(frozen=True)
class Variant:
    """One row: how to imagine, how policies perceive it, and what the world model is fitted on."""

    manner: Manner = MANNERS["adwm"]
    interface: Literal["text", "soft"] = "text"
    loggers: int = 3
    latent: int | None = None


VARIANTS: dict[str, Variant] = {
    "adwm": Variant(),
    "adwm, DDPM-50": Variant(replace(MANNERS["adwm"], steps=50, eta=1.0)),
    "adwm, with CFG": Variant(replace(MANNERS["adwm"], w=0.5)),
    "adwm, one behaviour policy": Variant(loggers=1),
    "adwm, d_z halved": Variant(latent=16),
    "paper, no adapter": Variant(replace(PAPER, alpha=0.0)),
    "paper, no adapter, no CFG": Variant(replace(PAPER, alpha=0.0, w=0.0)),
    "paper": Variant(replace(PAPER, steps=10, eta=0.0), "soft"),
    "paper, no CFG": Variant(replace(PAPER, steps=10, eta=0.0, w=0.0), "soft"),
    "paper, no continuation": Variant(replace(PAPER, steps=10, eta=0.0, alpha=0.0), "soft"),
}


class Settings(Config):
    """Rank correlation and error of the world model with parts taken away, on the worlds and policies of bench rank."""

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench ablate --out bench-rank",
        "worldline bench ablate --envs household --tasks 32",
    )

    envs: tuple[Literal["household", "shop", "searchqa"], ...] = option(
        ("household", "shop", "searchqa"), help="which worlds", min_length=1
    )
    variants: tuple[str, ...] = option(tuple(VARIANTS), help="which rows", min_length=1)
    tasks: int = option(96, help="tasks imagined for each policy", ge=4)
    guided: int = option(24, help="tasks imagined where every step asks the policy for a gradient", ge=4)
    seed: int = option(0, help="of world models and imagination")
    out: Path = option(Path("bench-rank"), help="the folder of bench rank: what is there is used again")


def run(settings: Settings) -> Figures:
    rows: list[dict[str, Any]] = [{"variant": name} for name in settings.variants]
    for env in settings.envs:
        stage = rank.stage_of(rank.Settings(env=env, out=settings.out))
        for row in rows:
            measured = _kept(row["variant"], stage, settings)
            row |= {f"{env} {measure}": value for measure, value in measured.items()}
            print(f"{env}, {row['variant']}: {measured}", file=sys.stderr, flush=True)
    figures = {
        f"{row['variant']} {key}": value for row in rows for key, value in row.items() if isinstance(value, float)
    }
    return Figures(figures, rows)


def _kept(name: str, stage: Stage, settings: Settings) -> dict[str, float | None]:
    """What a row came to in one world; measured now unless it was before, with the same settings."""
    path = stage.out / "ablate" / "rows.json"
    known: dict[str, dict[str, float | None]] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    key = f"{VARIANTS[name]}, {settings.tasks} and {settings.guided} tasks, seed {settings.seed}"
    if key not in known:
        known[key] = _measured(VARIANTS[name], stage, settings)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
    return known[key]


def _measured(variant: Variant, stage: Stage, settings: Settings) -> dict[str, float | None]:
    soft = variant.interface == "soft"
    names = [n for n, make in stage.cast.targets.items() if not soft or (isinstance(make, Clone) and not make.epsilon)]
    if len(names) < 2:
        return {"spearman": None, "mae": None, "policies": 0}
    log = [episode for name in list(stage.cast.loggers)[: variant.loggers] for episode in stage.play(name)]
    ensemble = _fitted(variant, log, stage.out / "ablate", settings)
    truth = stage.truth()
    starts = _starts(log, settings.guided if soft else settings.tasks)
    said = []
    for name in names:
        channel = connect(stage.targets[name], ensemble, variant.interface, seed=settings.seed)
        guide = channel.guide if variant.manner.alpha else None
        played = imagine(
            ensemble, channel.policy, manner=variant.manner, guide=guide, starts=starts, rollouts=1, seed=settings.seed
        )
        said.append(float(played.values.mean()))
    true = [truth[name] for name in names]
    return {
        "spearman": spearman(np.array(said), np.array(true)),
        "mae": float(np.abs(np.array(said) - np.array(true)).mean()),
        "policies": len(names),
    }


def _starts(log: Sequence[Trajectory], tasks: int) -> list[Trajectory]:
    first = {episode.task_id: episode for episode in reversed(log)}
    return list(first.values())[:tasks]


def _fitted(variant: Variant, log: Sequence[Trajectory], folder: Path, settings: Settings) -> Ensemble:
    """One member for each way of fitting, made once."""
    out = folder / f"{variant.loggers}-loggers-{variant.latent or 'full'}-{settings.seed}"
    if (out / "figures.json").is_file():
        return Ensemble.load(out)
    out.mkdir(parents=True, exist_ok=True)
    config = FitConfig(
        log=(out,), out=out, members=1, rivals=False, horizon=0, latent=variant.latent, seed=settings.seed
    )
    return fit_episodes(log, config).ensemble
