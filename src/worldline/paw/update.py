"""One policy update: log-probabilities of the collected tokens, then mini-batch steps on eq. 11 (Algorithm 1, line 11).

The loss of a mini-batch is a sum over its tokens of loss times weight. The weights are known before the first
forward pass, so micro-batches, ranks and padding only decide in which order the same sum is taken. The policy term is
a token mean over the mini-batch; the world-model term is the mini-batch's part of the update's mean of means, scaled
up by (rows of the update / rows of the mini-batch), so that every mini-batch estimates the whole.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from worldline.config import Config, option
from worldline.paw import loss
from worldline.paw.batches import Batch, action_starts, deal, micro_batches, mini_batches, pack
from worldline.paw.rows import StepRow
from worldline.paw.sequences import token_sequences


class UpdateConfig(Config):
    """The optimiser's side of an update. The defaults are the paper's for ALFWorld."""

    lr: float = option(1e-6, help="AdamW's learning rate", gt=0)
    critic_lr: float = option(1e-5, help="PPO: learning rate of the critic", gt=0)
    weight_decay: float = option(0.01, help="AdamW's weight decay", ge=0)
    mini_batch: int = option(256, help="rows per optimiser step; 0: one step per update", ge=0)
    epochs: int = option(1, help="passes over the rows of an update", ge=1)
    clip: float = option(0.2, help="how far a token's probability ratio may move", gt=0)
    dual_clip: float = option(3.0, help="bound of the ratio where the advantage is negative", gt=1)
    kl: float = option(0.01, help="weight of the k3 divergence from the starting policy; 0: no reference", ge=0)
    entropy: float | None = option(None, help="weight of the entropy bonus; default: the preset's", ge=0)
    value: float = option(1.0, help="PPO: weight of the value loss", ge=0)
    value_clip: float = option(0.5, help="PPO: how far a value may move", gt=0)
    max_norm: float = option(1.0, help="gradients are clipped to this norm", gt=0)
    batch_tokens: int = option(16384, help="tokens in one forward pass: bounds memory, changes nothing else", ge=1)


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What one pass over the rows says of every response token of the update, flat, row after row."""

    logprob: Tensor  # (actions,)
    entropy: Tensor  # (actions,)
    value: Tensor  # (actions,) zeros without a critic


@dataclass(frozen=True, slots=True)
class Experience:
    """Everything an update learns from. `actions` are all its response tokens, row after row."""

    rows: Sequence[StepRow]
    advantages: Tensor  # (actions,)
    world_weights: Tensor  # (rows,) 0: the row's continuation is not even read
    old_logprobs: Tensor | None = None  # (actions,) None: the old policy is the present one
    reference_logprobs: Tensor | None = None  # (actions,)
    old_values: Tensor | None = None  # (actions,)
    value_targets: Tensor | None = None  # (actions,)
    temperature: float = 1.0
    """What the responses were drawn at."""

    def to(self, device: torch.device) -> "Experience":
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: x.to(device) for name, x in values.items() if isinstance(x, Tensor)}
        return replace(self, **moved)


def score(
    learner: Any, rows: Sequence[StepRow], accelerator: Any, batch_tokens: int, temperature: float
) -> TokenScores:
    """Log-probability, entropy and value of all response tokens under `learner`, on the CPU. No observation is read."""
    starts = action_starts(rows)
    table = torch.zeros(3, starts[-1], device=accelerator.device)
    batches = micro_batches(token_sequences(rows, range(len(rows)), None), batch_tokens)
    with torch.no_grad():
        for chosen in deal(batches, accelerator.process_index, accelerator.num_processes):
            batch = pack(rows, starts, chosen, None).to(accelerator.device)
            out = learner(batch, temperature=temperature, entropy=True)
            for place, name in enumerate(("logprob", "entropy", "value")):
                if name in out:
                    table[place, batch.action_index] = out[name]
    return TokenScores(*accelerator.reduce(table, reduction="sum").cpu().unbind())


def update(
    learner: Any,
    optimizer: Any,
    experience: Experience,
    config: UpdateConfig,
    accelerator: Any,
    *,
    kind: loss.WorldLoss = "cmae",
    rho: float = 0.2,
    seed: int = 0,
) -> dict[str, float]:
    """Step over all mini-batches of `experience`; the diagnostics of the whole.

    A step whose loss or gradient is not finite is not taken, and counted as `skipped`.
    """
    generator = torch.Generator().manual_seed(seed)
    experience = experience.to(accelerator.device)
    sums = Counter[str]()
    for _ in range(config.epochs):
        for chosen in mini_batches(experience.rows, config.mini_batch, generator):
            optimizer.zero_grad(set_to_none=True)
            step = gradient(learner, experience, chosen, config, accelerator, kind=kind, rho=rho)
            step["grad_norm"] = float(accelerator.clip_grad_norm_(learner.parameters(), config.max_norm))
            if math.isfinite(step["grad_norm"]) and math.isfinite(step["loss"]):
                optimizer.step()
                sums.update(step | {"steps": 1.0})
            else:
                sums["skipped"] += 1
    return diagnostics(sums)


def gradient(
    learner: Any,
    experience: Experience,
    chosen: Sequence[int],
    config: UpdateConfig,
    accelerator: Any,
    *,
    kind: loss.WorldLoss = "cmae",
    rho: float = 0.2,
) -> dict[str, float]:
    """Accumulate the gradient of the mini-batch `chosen`, over this rank's micro-batches and all ranks; its sums."""
    rows, ranks = experience.rows, accelerator.num_processes
    starts = action_starts(rows)
    world = (experience.world_weights > 0).tolist()
    action_weight = 1 / sum(len(rows[index].response) for index in chosen)
    world_scale = len(rows) / len(chosen)
    batches = micro_batches(token_sequences(rows, chosen, world), config.batch_tokens)
    share = deal(batches, accelerator.process_index, ranks)
    sums: dict[str, Tensor] = {}
    for place, part in enumerate(share, start=1):
        batch = pack(rows, starts, part, world).to(accelerator.device)
        with nullcontext() if place == len(share) else accelerator.no_sync(learner):
            out = learner(batch, temperature=experience.temperature, entropy=True)
            policy, logs = _policy_terms(out, batch, experience, action_weight, config)
            observation, world_logs = _world_term(out["world"], batch, experience, kind, rho)
            total = policy + world_scale * observation
            accelerator.backward(total * ranks)  # whose average over the ranks is the sum
        for name, value in (logs | world_logs | {"loss": total.detach()}).items():
            sums[name] = sums[name] + value if name in sums else value
    summed = accelerator.reduce(torch.stack([value.float() for value in sums.values()]), reduction="sum")
    return dict(zip(sums, summed.tolist(), strict=True))


def _policy_terms(
    out: dict[str, Tensor], batch: Batch, experience: Experience, weight: float, config: UpdateConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """The base algorithm's loss on this batch: every token weighs the same."""
    at = batch.action_index
    logprob = out["logprob"]
    weights = torch.full_like(logprob, weight)
    old = logprob.detach() if experience.old_logprobs is None else experience.old_logprobs[at]
    total, logs = loss.policy_loss(logprob, old, experience.advantages[at], weights, config.clip, config.dual_clip)
    logs["pg_loss"] = total.detach()
    logs["entropy"] = loss.entropy_bonus(out["entropy"], weights).detach()
    if config.entropy:
        total = total - config.entropy * loss.entropy_bonus(out["entropy"], weights)
    if experience.reference_logprobs is not None:
        divergence = loss.kl_loss(logprob, experience.reference_logprobs[at], weights)
        logs["kl"] = divergence.detach()
        total = total + config.kl * divergence
    if experience.old_values is not None and experience.value_targets is not None:
        error = loss.value_loss(
            out["value"], experience.old_values[at], experience.value_targets[at], weights, config.value_clip
        )
        logs["value_loss"] = error.detach()
        total = total + config.value * error
    return total, logs


def _world_term(
    logprob: Tensor, batch: Batch, experience: Experience, kind: loss.WorldLoss, rho: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """The world-model loss on this batch: a row's weight is spread over its observation tokens."""
    spread = batch.world_share
    total, logs = loss.world_model_loss(logprob, experience.world_weights[batch.world_row] * spread, kind, rho)
    with torch.no_grad():
        slope = loss.logit_gradient(logprob, kind, rho)
        return total, {
            "world_loss": loss.world_model_loss(logprob, spread, kind, rho)[0],
            "world_rows": spread.sum(),
            "world_tokens": torch.ones_like(logprob).sum(),
            "world_clipped": logs["clipped"],
            "world_slope": slope.sum(),
            "world_noisy": batch.world_noisy.sum(),
            "world_noise": (slope * batch.world_noisy).sum(),
        }


def diagnostics(sums: Mapping[str, float]) -> dict[str, float]:
    """What the sums over all steps say: policy terms per step, world-model terms per row or token."""
    steps = max(1.0, sums.get("steps", 0.0))
    per_step = ("loss", "pg_loss", "clip_fraction", "dual_clip_fraction", "approx_kl", "entropy", "kl", "value_loss")
    result = {name: sums[name] / steps for name in (*per_step, "grad_norm") if name in sums}
    result |= {"steps": sums.get("steps", 0.0), "skipped": sums.get("skipped", 0.0)}
    if sums.get("world_tokens"):
        result["wm_loss"] = sums["world_loss"] / sums["world_rows"]
        result["wm_clipped_tokens"] = sums["world_clipped"] / sums["world_tokens"]
    if sums.get("world_noisy"):
        result["wm_noise_share"] = sums["world_noise"] / max(sums["world_slope"], 1e-12)
    return result
