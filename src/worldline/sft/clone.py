"""Behaviour cloning of sequences into a causal LM: one loop, top to bottom.

Leaves out multi-device training: this makes start policies. `paw` is the trainer that scales.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from worldline import metrics, training_state
from worldline.sft.gradient import BatchGradient, Example
from worldline.sft.muon import Muon
from worldline.types import InputError, WorldlineError, derive_seed

METRICS, STATE = "metrics.jsonl", "training_state.pt"


@dataclass(frozen=True)
class CloningSchedule:
    """How long and how fast to train."""

    epochs: float
    batch_tokens: int
    learning_rate: float
    muon_rate: float | None = None
    """Train the hidden matrices by Muon at this rate, the rest by AdamW: for a model made from nothing it needs about
    a third of the tokens. None: AdamW throughout, as a pretrained model wants."""
    reading: float = 0.0
    """Loss weight of the tokens that are not learned: a model made from nothing learns to copy from them."""
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    half: bool = False
    """Compute in bfloat16; weights and what the optimiser keeps stay as they are."""
    checkpoints: int = 1
    """How many checkpoints along the way, the last one at the end: policies of increasing quality."""


@dataclass(frozen=True)
class Progress:
    """One line of metrics.jsonl."""

    step: int
    steps: int
    loss: float
    learning_rate: float
    tokens: int


@dataclass(frozen=True)
class Cloning:
    """Where a training ended, and what was wrong in the folder it took up again."""

    progress: Progress
    notes: tuple[str, ...]


def clone(
    model: Any,
    examples: Sequence[Example],
    schedule: CloningSchedule,
    *,
    pad: int,
    seed: int,
    folder: Path,
    save: Callable[[Path], None],
    watch: Callable[[Progress], None] = lambda progress: None,
) -> Cloning:
    """Train `model` in place on the learned tokens; checkpoints and metrics go to `folder`, from where it goes on."""
    batches = _Batches(examples, schedule.batch_tokens, seed)
    total = max(1, math.ceil(schedule.epochs * len(batches.epoch(0))))
    optimisers = _optimisers(model, schedule)
    progress = _restore(folder, model, optimisers) or Progress(0, total, float("nan"), 0.0, 0)
    notes = metrics.cut_back(folder / METRICS, "step", progress.step)
    marks = {math.ceil(total * (k + 1) / schedule.checkpoints) for k in range(schedule.checkpoints)}
    steps = range(progress.step + 1, total + 1)
    gradient = BatchGradient(model, pad, schedule.batch_tokens, schedule.reading, schedule.half)
    model.train()
    for step, batch in zip(steps, batches.stream(progress.step), strict=False):  # the stream has no end
        torch.manual_seed(derive_seed(seed, "step", step))  # dropout, where there is any
        rate = _rate(step, total, schedule.warmup)
        loss = gradient(batch)
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = group["initial_lr"] * rate
            optimiser.step()
        tokens = progress.tokens + sum(len(example.tokens) for example in batch)
        progress = Progress(step, total, loss.item(), schedule.learning_rate * rate, tokens)
        if not math.isfinite(progress.loss):
            raise WorldlineError(f"the loss became {progress.loss} at step {step}: lower --learning-rate")
        metrics.append(folder / METRICS, asdict(progress))
        watch(progress)
        if step in marks:
            _checkpoint(folder, progress, model, optimisers, save)
    model.zero_grad(set_to_none=True)
    model.eval()
    return Cloning(progress, notes)


def _optimisers(model: Any, schedule: CloningSchedule) -> list[torch.optim.Optimizer]:
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    table = model.get_input_embeddings().weight
    hidden = [p for p in trained.values() if p.ndim == 2 and p is not table] if schedule.muon_rate else []
    others = [p for p in trained.values() if not any(p is matrix for matrix in hidden)]
    made: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [{"params": others, "initial_lr": schedule.learning_rate}],
            lr=schedule.learning_rate,
            betas=(0.9, 0.98),
            weight_decay=schedule.weight_decay,
            fused=table.is_cuda,
        )
    ]
    if schedule.muon_rate:
        made.append(
            Muon(
                [{"params": hidden, "initial_lr": schedule.muon_rate}],
                lr=schedule.muon_rate,
                weight_decay=schedule.weight_decay,
            )
        )
    return made


class _Batches:
    """Batches of similar length under a token budget, in a seeded order that is new every epoch."""

    def __init__(self, examples: Sequence[Example], budget: int, seed: int) -> None:
        self.examples, self.budget, self.seed = examples, budget, seed

    def epoch(self, number: int) -> list[list[Example]]:
        order = random.Random(derive_seed(self.seed, "epoch", number))
        ranked = sorted(self.examples, key=lambda example: len(example.tokens) * (1 + 0.1 * order.random()))
        batches: list[list[Example]] = [[]]
        for example in ranked:
            if batches[-1] and (len(batches[-1]) + 1) * len(example.tokens) > self.budget:
                batches.append([])
            batches[-1].append(example)
        order.shuffle(batches)
        return batches

    def stream(self, skip: int) -> Iterator[list[Example]]:
        number = 0
        while True:
            for batch in self.epoch(number):
                if skip:
                    skip -= 1
                    continue
                yield batch
            number += 1


def _rate(step: int, total: int, warmup: float) -> float:
    """Linear warm-up, then cosine down to a tenth."""
    ramp = max(1.0, warmup * total)
    if step <= ramp:
        return step / ramp
    return 0.1 + 0.45 * (1 + math.cos(math.pi * (step - ramp) / max(1.0, total - ramp)))


def _checkpoint(
    folder: Path,
    progress: Progress,
    model: Any,
    optimisers: list[torch.optim.Optimizer],
    save: Callable[[Path], None],
) -> None:
    """A folder transformers loads, and then what resuming needs: killed between the two, the folder is made again."""
    save(folder / "checkpoints" / f"step-{progress.step:06d}")
    state = {
        "progress": asdict(progress),
        "optimisers": [optimiser.state_dict() for optimiser in optimisers],
        "weights": _trained(model),
    }
    training_state.save(folder / STATE, state)


def _restore(folder: Path, model: Any, optimisers: list[torch.optim.Optimizer]) -> Progress | None:
    """Put model and optimisers back to the newest checkpoint; how far it had come, None if there is none."""
    path = folder / STATE
    if not path.exists():
        return None
    state = training_state.load(path, model.device)
    if state["weights"].keys() != _trained(model).keys():
        raise InputError(f"{path}: belongs to another model; give the same --model and --lora, or --overwrite")
    model.load_state_dict(state["weights"], strict=False)
    for optimiser, kept in zip(optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(kept)
    return Progress(**state["progress"])


def _trained(model: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
