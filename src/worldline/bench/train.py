"""Does world-model co-training help? The same start, the same budget, with and without, over seeds.

Everything is kept in `--out` and nothing is done twice: clones, runs, final evaluations. A bench that was stopped goes
on where it was; so does each of its runs. They go side by side in `--jobs` processes, on one GPU if there is one.
"""

import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from scipy import special

from worldline import files
from worldline.bench import Figures
from worldline.bench.train_plans import PLANS, SPARSE, TAUGHT, Comparison, Taught, TrainRun, train_runs
from worldline.collect import CollectConfig, collect
from worldline.config import Config, Folder, option, positional, validate
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.sft import SftConfig, sft
from worldline.types import InputError, WorldlineError
from worldline.worker_pool import worker_pool


class TrainBenchConfig(Config):
    """Train a small language model from one weak clone, with and without PaW, and compare success on unseen tasks.

    main: GRPO and GiGPO (household: also PPO and RLOO with two seeds). sparse: GRPO from a start that hardly ever
    succeeds. ablate: GRPO with PaW changed in one thing at a time. beyond: attempts beyond the paper, with seeds 20,
    21, ..., which no earlier comparison used.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench train household --seeds 5 --jobs 16",
        "worldline bench train shop",
        "worldline bench train household --case sparse",
        "worldline bench train household --case beyond --seeds 5 --jobs 9",
        "worldline bench train household --only grpo grpo+paw --taught action",
    )

    env: Literal["household", "shop", "searchqa"] = positional(help="household, shop or searchqa")
    seeds: int = option(3, help="runs of each variant: seeds 0, 1, ..., with --case beyond 20, 21, ...", ge=1)
    case: Comparison = option("main", help="which comparison")
    taught: Taught | None = option(None, help="what the start has learned; both: observations too; default: as planned")
    model: str = option("", help="what the start is made of: nano, micro, a folder or a hub id; default: as planned")
    start: tuple[float, float] | None = option(None, help="success the start may have, LOW HIGH; default: as planned")
    out: Folder = option(Path("runs/bench-train"), help="folder that keeps clones and runs, to go on from")
    jobs: int = option(1, help="runs at a time, each in a process of its own", ge=1)
    updates: int | None = option(None, help="updates of each run; default: as planned", ge=1)
    only: tuple[str, ...] = option((), help="only these variants, e.g. grpo grpo+paw")
    final: int = option(512, help="unseen tasks of the final evaluation", ge=1)
    device: str = option("auto", help="auto: a GPU where there is one")


Settings = TrainBenchConfig


def run(settings: TrainBenchConfig) -> Figures:
    """Make the start, run what is missing, compare."""
    start = _start(settings)
    planned = train_runs(settings.env, settings.case, settings.seeds)
    runs = [run for run in planned if not settings.only or run.variant in settings.only]
    if not runs:
        raise InputError(f"--only {' '.join(settings.only)}: no such variant in case '{settings.case}'")
    rows = sorted(_results(runs, start, settings), key=lambda row: (row["variant"], row["seed"]))
    figures = {"start": start.success} | compared(rows)
    return Figures(figures, rows)


@dataclass(frozen=True)
class Start:
    """The clone that all runs of a comparison begin with."""

    model: Path
    success: float


def _start(settings: TrainBenchConfig) -> Start:
    """The best checkpoint of the cloning run that is still as weak as the comparison wants it."""
    plan = PLANS[settings.env]
    taught = settings.taught or plan.taught
    folder = settings.out / settings.env / ("clone" if taught == plan.taught else f"clone-{taught}")
    cloning = {"device": settings.device} | TAUGHT[taught] | dict(plan.clone)
    cloning |= {"model": settings.model} if settings.model else {}
    config = SftConfig(source=settings.env, out=folder, options=dict(plan.options), **cloning)
    begun = folder / "config.json"
    if begun.is_file() and json.loads(begun.read_text(encoding="utf-8")).get("model") != config.model:
        raise InputError(f"{folder}: is a clone of another --model; give another --out")
    if not (folder / "model").exists():
        sft(config.model_copy(update={"resume": begun.is_file()}))
    low, high = settings.start or (SPARSE if settings.case == "sparse" else plan.start)
    episodes = min(256, settings.final)
    path = folder / f"success-{episodes}.json"
    success = _load(path)
    for checkpoint in sorted((folder / "checkpoints").glob("step-*"), reverse=True):
        if checkpoint.name not in success:
            success[checkpoint.name] = _play(checkpoint, settings, episodes)["success"]
            files.write_json(path, success)
        if success[checkpoint.name] <= high:
            if success[checkpoint.name] < low:
                break
            return Start(checkpoint, success[checkpoint.name])
    raise WorldlineError(f"{folder}: no clone with a success between {low} and {high}: {success}")


def _results(runs: Sequence[TrainRun], start: Start, settings: TrainBenchConfig) -> Iterator[dict[str, Any]]:
    if settings.jobs == 1:
        for run in runs:
            yield _printed(_result(run, start, settings))
        return
    with worker_pool(settings.jobs) as pool:
        for future in as_completed([pool.submit(_result, run, start, settings) for run in runs]):
            yield _printed(future.result())


def _printed(row: dict[str, Any]) -> dict[str, Any]:
    print(f"{row['variant']} seed {row['seed']}: {row['success']:.3f} in {row['seconds']:.0f} s", file=sys.stderr)
    return row


def _result(run: TrainRun, start: Start, settings: TrainBenchConfig) -> dict[str, Any]:
    """The row of one run; made now unless it is there already."""
    folder = settings.out / settings.env / _place(settings) / run.name
    config = _recipe(run, start, folder, settings)
    path = folder / "result.json"
    decisive = config.model_dump(mode="json", exclude={"out", "resume"}) | {"final": settings.final}
    if path.exists():
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept["settings"] != decisive:
            raise InputError(f"{folder}: was made with other settings; give another --out")
        return dict(kept["row"])
    trained = train(config)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    final = _play(trained.checkpoint, settings, settings.final)
    row = {
        "variant": run.variant,
        "seed": run.seed,
        "success": final["success"],
        "low": final["success_low"],
        "high": final["success_high"],
        "score": final["score"],
        "seconds": sum(value for line in lines for key, value in line.items() if key in _PHASES),
        "curve": [[line["update"], line["eval_success"]] for line in lines if "eval_success" in line],
        "training": [[line["update"], line["success"]] for line in lines if "success" in line],
        "wm_loss": [[line["update"], line["wm_loss"]] for line in lines if "wm_loss" in line],
        "wm_clipped": [[line["update"], line["wm_clipped_tokens"]] for line in lines if "wm_clipped_tokens" in line],
    }
    files.write_json(path, {"settings": decisive, "row": row})
    return row


_PHASES = ("seconds_rollout", "seconds_logprob", "seconds_update", "seconds_evaluation")


def _place(settings: TrainBenchConfig) -> str:
    """The folder of a comparison's runs: those of all cases but `sparse` have the same start and share their base."""
    kind = "sparse" if settings.case == "sparse" else "runs"
    return kind if settings.taught in (None, PLANS[settings.env].taught) else f"{kind}-{settings.taught}"


def _recipe(run: TrainRun, start: Start, folder: Path, settings: TrainBenchConfig) -> TrainConfig:
    plan = PLANS[settings.env]
    rollout = {"device": settings.device} | dict(plan.recipe.get("rollout", {}))
    chosen: dict[str, Any] = {**plan.recipe, "rollout": rollout, **run.recipe}
    if settings.updates:
        chosen["updates"] = settings.updates
    place = {"env": settings.env, "options": dict(plan.options), "model": str(start.model), "out": folder}
    return validate(TrainConfig, {**chosen, **place, "seed": run.seed, "resume": True})


def _play(checkpoint: Path, settings: TrainBenchConfig, episodes: int) -> dict[str, Any]:
    """The online evaluation on unseen tasks: the same ones, with the same random draws, for every run."""
    plan = PLANS[settings.env]
    config = CollectConfig(
        env=settings.env,
        policy=f"hf:{checkpoint}",
        options=dict(plan.options),
        split="unseen" if settings.env == "household" else "test",
        episodes=episodes,
        temperature=plan.recipe["evaluation"]["temperature"],
        batch_size=plan.recipe["batch_size"],
        device=settings.device,
        **plan.recipe["rollout"],
    )
    return collect(config).summary()


def compared(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Each variant's mean success over seeds, and what it gains over its base, with 95 % Student intervals.

    Gains are differences between runs of the same seed, which met the same tasks.
    """
    by_variant: dict[str, dict[int, float]] = {}
    for row in rows:
        by_variant.setdefault(row["variant"], {})[row["seed"]] = row["success"]
    figures = {variant: statistics.mean(successes.values()) for variant, successes in by_variant.items()}
    for variant, successes in by_variant.items():
        base = by_variant.get(variant.partition("+")[0], {})
        gains = [success - base[seed] for seed, success in successes.items() if seed in base]
        if "+" in variant and gains:
            half = _student(gains)
            mean = statistics.mean(gains)
            figures |= {
                f"{variant} gain": mean,
                f"{variant} gain low": mean - half,
                f"{variant} gain high": mean + half,
            }
    return figures


def _student(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of a mean; unknown for one value."""
    if len(values) < 2:
        return math.nan
    return float(special.stdtrit(len(values) - 1, 0.975)) * statistics.stdev(values) / math.sqrt(len(values))


def _load(path: Path) -> dict[str, float]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
