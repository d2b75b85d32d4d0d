"""The gradient of a mini-batch on eq. 11, in micro-batches, over all ranks.

The loss of a mini-batch is a sum over its tokens of loss times weight. The weights are fixed before the first
forward pass, so micro-batches, ranks and padding only decide in which order the same sum is taken. The policy term is
a mean over the mini-batch (`aggregation.py` says of what); the world-model term is the mini-batch's part of the
update's mean of means, scaled up by (rows of the update / rows of the mini-batch), so that every mini-batch
estimates the whole.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import torch
from torch import Tensor

from worldline.config import Config, option
from worldline.paw import loss
from worldline.paw.aggregation import Aggregation, token_weights
from worldline.paw.batches import Batch, action_starts, deal, micro_batches, pack
from worldline.paw.learning_rate import Schedule
from worldline.paw.rows import StepRow
from worldline.paw.sequences import token_sequences

Term = Literal["policy", "world", "value"]
EVERY_TERM: tuple[Term, ...] = ("policy", "world", "value")


class UpdateConfig(Config):
    """The optimiser's side of an update. Rates follow the model; the other defaults are the paper's for ALFWorld."""

    lr: float | None = option(
        None,
        help="AdamW's learning rate; default 1e-4 below 20 million parameters, 3e-5 below a billion, 1e-6 above "
        "(the paper's); with LoRA 5e-4, 1e-4, 1e-5",
        gt=0,
    )
    critic_lr: float | None = option(
        None, help="PPO: learning rate of the critic; default: ten times the model's default, at most 1e-3", gt=0
    )
    schedule: Schedule = option("constant", help="of the rate after the warm-up; the others end at a tenth")
    warmup: int | None = option(
        None, help="updates of linear warm-up; default 1 below 20 million parameters, else 3", ge=0
    )
    weight_decay: float = option(0.01, help="AdamW's weight decay", ge=0)
    mini_batch: int = option(256, help="rows per optimiser step; 0: one step per update", ge=0)
    epochs: int = option(1, help="passes over the rows of an update", ge=1)
    clip: float = option(0.2, help="how far a token's probability ratio may move", gt=0, lt=1)
    clip_high: float | None = option(
        None, help="how far it may move up, where that differs (clip-higher; DAPO: 0.28)", gt=0
    )
    dual_clip: float = option(3.0, help="bound of the ratio where the advantage is negative", gt=1)
    aggregation: Aggregation = option(
        "token", help="mean over tokens (DAPO), over responses, or the tokens' sum over a constant (Dr. GRPO)"
    )
    constant: int = option(64, help="tokens a response counts as, with --update.aggregation constant", ge=1)
    kl: float = option(0.01, help="weight of the k3 divergence from the starting policy; 0: no reference", ge=0)
    entropy: float | None = option(None, help="weight of the entropy bonus; default: the preset's", ge=0)
    value: float = option(1.0, help="PPO: weight of the value loss", ge=0)
    value_clip: float = option(0.5, help="PPO: how far a value may move", gt=0)
    max_norm: float = option(1.0, help="the policy's gradient (with the world model's) is clipped to this norm", gt=0)
    critic_max_norm: float = option(1.0, help="PPO: the critic's gradient is clipped to this norm", gt=0)
    batch_tokens: int = option(16384, help="tokens in one forward pass: bounds memory, changes nothing else", ge=1)
    packing: bool = option(
        False,
        help="put sequences one after another into one row instead of padding them: saves time where lengths differ "
        "much (transcripts), changes nothing else",
    )


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


def gradient(
    learner: Any,
    experience: Experience,
    chosen: Sequence[int],
    config: UpdateConfig,
    accelerator: Any,
    *,
    kind: loss.WorldLoss = "cmae",
    rho: float = 0.2,
    terms: Sequence[Term] = EVERY_TERM,
) -> dict[str, float]:
    """Accumulate the gradient of the mini-batch `chosen`, over this rank's micro-batches and all ranks; its sums.

    `terms` says of which parts of the loss; the sums are those of these parts.
    """
    rows, ranks = experience.rows, accelerator.num_processes
    starts = action_starts(rows)
    world = (experience.world_weights > 0).tolist() if "world" in terms else None
    lengths = torch.tensor([len(row.response) for row in rows])
    weights = token_weights(lengths, chosen, config.aggregation, config.constant).to(accelerator.device)
    share_of_tokens = token_weights(lengths, chosen).to(accelerator.device)
    world_scale = len(rows) / len(chosen)
    batches = micro_batches(token_sequences(rows, chosen, world), config.batch_tokens, packed=config.packing)
    share = deal(batches, accelerator.process_index, ranks)
    sums: dict[str, Tensor] = {}
    for place, part in enumerate(share, start=1):
        batch = pack(rows, starts, part, world, packed=config.packing).to(accelerator.device)
        with nullcontext() if place == len(share) else accelerator.no_sync(learner):
            out = learner(batch, temperature=experience.temperature, entropy=True)
            total = _anchor(out) if len(terms) < len(EVERY_TERM) else torch.zeros((), device=accelerator.device)
            logs: dict[str, Tensor] = {}
            at = batch.action_index
            if "policy" in terms:
                policy, logs = _policy_terms(out, at, experience, weights[at], share_of_tokens[at], config)
                total = total + policy
            if "value" in terms and experience.old_values is not None:
                error = _value_term(out["value"], at, experience, weights[at], config)
                logs["value_loss"] = error.detach()
                total = total + config.value * error
            if "world" in terms:
                observation, world_logs = _world_term(out["world"], batch, experience, kind, rho)
                logs |= world_logs
                total = total + world_scale * observation
            accelerator.backward(total * ranks)  # whose average over the ranks is the sum
        for name, value in (logs | {"loss": total.detach()}).items():
            sums[name] = sums[name] + value if name in sums else value
    summed = accelerator.reduce(torch.stack([value.float() for value in sums.values()]), reduction="sum")
    return dict(zip(sums, summed.tolist(), strict=True))


def _anchor(out: dict[str, Tensor]) -> Tensor:
    """Zero, with every output on its graph: processes that average gradients want one of every weight."""
    return torch.stack([0.0 * out[name].sum() for name in ("logprob", "world", "value") if name in out]).sum()


def _policy_terms(
    out: dict[str, Tensor], at: Tensor, experience: Experience, weights: Tensor, share: Tensor, config: UpdateConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """The base algorithm's loss on the response tokens `at`; what is logged is a mean over tokens, by `share`."""
    logprob = out["logprob"]
    old = logprob.detach() if experience.old_logprobs is None else experience.old_logprobs[at]
    total, logs = loss.policy_loss(
        logprob,
        old,
        experience.advantages[at],
        weights,
        config.clip,
        config.dual_clip,
        clip_high=config.clip_high,
        share=share,
    )
    logs["pg_loss"] = total.detach()
    logs["entropy"] = loss.entropy_bonus(out["entropy"], share).detach()
    if config.entropy:
        total = total - config.entropy * loss.entropy_bonus(out["entropy"], weights)
    if experience.reference_logprobs is not None:
        reference = experience.reference_logprobs[at]
        logs["kl"] = loss.kl_loss(logprob.detach(), reference, share)
        total = total + config.kl * loss.kl_loss(logprob, reference, weights)
    return total, logs


def _value_term(value: Tensor, at: Tensor, experience: Experience, weights: Tensor, config: UpdateConfig) -> Tensor:
    """The critic's error on the response tokens `at`."""
    assert experience.old_values is not None
    assert experience.value_targets is not None
    return loss.value_loss(value, experience.old_values[at], experience.value_targets[at], weights, config.value_clip)


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
