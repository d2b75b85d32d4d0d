"""What world-model co-training costs: extra time and memory of an update, and the update against plain cross-entropy.

The same training run is done with and without PaW, turn about, from the same weights; the learning rate is too small
to move them, so that both play the same episodes. Absolute figures belong to the machine.
"""

import gc
import json
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from worldline.bench import Figures
from worldline.config import Config, option, positional
from worldline.paw.advantages import Algorithm
from worldline.paw.batches import action_starts, micro_batches, pack
from worldline.paw.gradient import Experience
from worldline.paw.groups import plan_groups
from worldline.paw.recipe import TrainConfig
from worldline.paw.sequences import token_sequences
from worldline.paw.session import Session
from worldline.paw.train import train
from worldline.paw.update import update
from worldline.types import InputError

PHASES = ("rollout", "logprob", "selection", "update")
UPDATES = 2
"""Of a run. The last is measured: what is recorded or compiled at first serves all that follow."""


class PawBenchConfig(Config):
    """Seconds and peak memory of whole updates, rollouts included, with PaW over without, measured turn about in one
    run; then tokens per second of the update with PaW against a plain transformers cross-entropy step on them.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench paw",
        "worldline bench paw --model hf:HuggingFaceTB/SmolLM2-135M-Instruct --prompt plain --precision bf16",
    )

    env: str = positional("household", help="environment")
    model: str = option("", help="hf:PATH, a causal LM; default: a small clone trained for a minute")
    options: dict[str, Any] = option({}, help="settings of the environment itself")
    algo: Algorithm = option("grpo", help="the algorithm PaW is added to")
    prompt: Literal["transcript", "plain", "paper", "react"] = option("plain", help="prompt template")
    groups: int = option(4, help="tasks per update", ge=1)
    group_size: int = option(8, help="episodes per task", ge=2)
    max_steps: int = option(10, help="step budget of an episode", ge=1)
    max_new_tokens: int = option(16, help="longest response", ge=1)
    repeats: int = option(5, help="updates of each kind that are measured", ge=1)
    batch_tokens: int = option(16384, help="tokens in one forward pass of the update", ge=1)
    precision: Literal["fp32", "bf16"] = option("fp32", help="of the computation")
    seed: int = option(0, help="decides tasks and draws")


Settings = PawBenchConfig


def run(settings: PawBenchConfig) -> Figures:
    """Measure whole updates both ways, then the update alone against cross-entropy."""
    with TemporaryDirectory() as folder:
        model = _model(settings, Path(folder))
        lines: dict[str, list[dict[str, float]]] = {"off": [], "paw": []}
        _updates(settings, model, Path(folder), "paw", UPDATES)  # kernels and allocators are warmed up
        for repeat in range(settings.repeats):
            for wm in ("off", "paw") if repeat % 2 else ("paw", "off"):
                lines[wm].append(_updates(settings, model, Path(folder), wm, UPDATES)[-1])
                print(
                    f"{repeat + 1}/{settings.repeats} {wm}: {_seconds_of(lines[wm][-1], *PHASES):.2f} s",
                    file=sys.stderr,
                )
        figures = shares(lines["off"], lines["paw"]) | _against_cross_entropy(settings, model, Path(folder))
    rows = [{"wm": wm, **{key: line[key] for key in _SHOWN if key in line}} for wm in lines for line in lines[wm]]
    return Figures(figures, rows)


_SHOWN = (
    *(f"seconds_{phase}" for phase in PHASES),
    "peak_gib",
    "rows",
    "response_tokens",
    "wm_rows",
    "wm_tokens_share",
)


def shares(plain: Sequence[dict[str, float]], paw: Sequence[dict[str, float]]) -> dict[str, float]:
    """PaW's extra over the plain algorithm, by medians over repeats.

    `extra_time_whole` counts everything, rollouts with both kinds' median, since both play the same episodes and
    the spread of rollouts would drown the difference; `extra_time_as_played` leaves each kind its own.
    """

    def median(lines: Sequence[dict[str, float]], *phases: str) -> float:
        return statistics.median(_seconds_of(line, *phases) for line in lines)

    rollout = median([*plain, *paw], "rollout")
    score = median([*plain, *paw], "logprob")
    shared = rollout + score
    before, after = median(plain, "update"), median(paw, "selection", "update")
    memory = [statistics.median(line["peak_gib"] for line in lines) for lines in (plain, paw)]
    return {
        "extra_time_whole": (shared + after) / (shared + before) - 1,
        "extra_time_as_played": median(paw, *PHASES) / median(plain, *PHASES) - 1,
        "extra_time_update_only": after / before - 1,
        "extra_peak_memory": memory[1] / memory[0] - 1,
        "rollout_share": rollout / (shared + before),
        "rollout_tokens_per_second": statistics.median(
            line["rows"] * line["response_tokens"] / line["seconds_rollout"] for line in [*plain, *paw]
        ),
        "seconds_whole_plain": shared + before,
        "peak_gib_plain": memory[0],
    }


def _seconds_of(line: dict[str, float], *phases: str) -> float:
    return sum(line.get(f"seconds_{phase}", 0.0) for phase in phases)


def _recipe(settings: PawBenchConfig, model: str, out: Path, wm: str, updates: int) -> TrainConfig:
    bf16 = settings.precision == "bf16"
    return TrainConfig.model_validate(
        {
            "env": settings.env,
            "options": settings.options,
            "model": model,
            "out": out,
            "algo": settings.algo,
            "wm": wm,
            "updates": updates,
            "groups": settings.groups,
            "group_size": settings.group_size,
            "max_steps": settings.max_steps,
            "precision": settings.precision,
            "seed": settings.seed,
            "overwrite": True,
            "rollout": {
                "prompt": settings.prompt,
                "max_new_tokens": settings.max_new_tokens,
                "dtype": "bfloat16" if bf16 else "float32",
            },
            "evaluation": {"every": 0},
            "update": {"lr": 1e-12, "batch_tokens": settings.batch_tokens},
        }
    )


def _updates(settings: PawBenchConfig, model: str, folder: Path, wm: str, updates: int) -> list[dict[str, float]]:
    """The metrics of one training run. Without a GPU in a process of its own: its peak memory never goes down."""
    recipe = _recipe(settings, model, folder / "run", wm, updates)
    if torch.cuda.is_available():
        return _trained(recipe)
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=torch.set_num_threads, initargs=_threads()) as pool:
        return pool.submit(_trained, recipe).result()


def _threads() -> tuple[int]:
    return (torch.get_num_threads(),)


class _MeasuredError(Exception):
    """All updates are made: what would follow is a checkpoint, which nobody reads."""


def _trained(recipe: TrainConfig) -> list[dict[str, float]]:
    def watch(metrics: dict[str, Any]) -> None:
        if metrics["update"] == recipe.updates:
            raise _MeasuredError

    with suppress(_MeasuredError):
        train(recipe, watch)
    gc.collect()
    return [json.loads(line) for line in (recipe.out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def _against_cross_entropy(settings: PawBenchConfig, model: str, folder: Path) -> dict[str, float]:
    """Tokens per second of PaW's update over those of a plain cross-entropy step on the same tokens."""
    config = _recipe(settings, model, folder / "run", "paw", 1)
    session = Session(config)
    episodes = plan_groups(session.world, session.split, 1, settings.groups, settings.group_size, settings.seed)
    rows = session.rows(list(session.rollout("bench").play(episodes)))
    size = sum(len(row.response) for row in rows)
    experience = Experience(
        rows=rows,
        advantages=torch.randn(size, generator=torch.Generator().manual_seed(0)),
        world_weights=torch.tensor([float(row.targets > 0) / len(rows) for row in rows]),
    )
    one_step = config.stepping.model_copy(update={"mini_batch": 0})
    parts = micro_batches(token_sequences(rows, range(len(rows)), [True] * len(rows)), settings.batch_tokens)
    tokens = sum(len(strand.tokens) for part in parts for strand in part)
    batches = [pack(rows, action_starts(rows), part, None).tokens for part in parts]
    lengths = [torch.tensor([len(strand.tokens) for strand in part]) for part in parts]

    def ours() -> None:
        update(session.learner, session.optimizer, experience, one_step, session.accelerator)

    def plain() -> None:
        _cross_entropy_step(session, batches, lengths)

    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    for repeat in range(settings.repeats + 1):
        for name, step in (("ours", ours), ("plain", plain)):
            taken = _seconds(step, session.accelerator.device)
            if repeat:
                seconds[name].append(taken)
    rates = {name: tokens / statistics.median(taken) for name, taken in seconds.items()}
    return {
        "update_tokens_per_second": rates["ours"],
        "cross_entropy_tokens_per_second": rates["plain"],
        "update_over_cross_entropy": rates["ours"] / rates["plain"],
    }


def _cross_entropy_step(session: Session, batches: Sequence[Tensor], lengths: Sequence[Tensor]) -> None:
    """One step of the optimiser on the cross-entropy of every token, as a plain training script takes it."""
    accelerator = session.accelerator
    session.optimizer.zero_grad(set_to_none=True)
    for batch, length in zip(batches, lengths, strict=True):
        ids = batch.to(accelerator.device)
        real = torch.arange(ids.shape[1]) < length[:, None]
        labels = ids.masked_fill(~real.to(ids.device), -100)
        with accelerator.autocast():
            lm = accelerator.unwrap_model(session.learner).lm
            loss = lm(input_ids=ids, labels=labels, use_cache=False).loss
        accelerator.backward(loss / len(batches))
    accelerator.clip_grad_norm_(session.learner.parameters(), 1.0)
    session.optimizer.step()


def _seconds(step: Any, device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def _model(settings: PawBenchConfig, folder: Path) -> str:
    """The model's path; a small clone that answers in actions, where none is given."""
    if settings.model:
        kind, _, path = settings.model.partition(":")
        if kind != "hf" or not path:
            raise InputError(f"--model {settings.model}: give hf:PATH")
        return path
    from worldline.sft import SftConfig, sft

    prompt: Any = settings.prompt
    sft(
        SftConfig(
            source=settings.env, options=settings.options, out=folder / "clone", prompt=prompt, episodes=100, epochs=2
        )
    )
    gc.collect()
    return str(folder / "clone" / "model")
