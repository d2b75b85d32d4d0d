"""One policy update: log-probabilities of the collected tokens, then mini-batch steps on eq. 11 (Algorithm 1, line 11).

PPO's critic has a clip of its own. Where it shares the policy's weights, the two gradients are taken one after the
other, for a sum cannot be clipped apart: such an update reads its rows twice.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from worldline.paw import loss
from worldline.paw.batches import action_starts, deal, micro_batches, mini_batches, pack
from worldline.paw.gradient import EVERY_TERM, Experience, Term, UpdateConfig, gradient
from worldline.paw.model import SharedCritic
from worldline.paw.processes import reshard
from worldline.paw.rows import StepRow
from worldline.paw.sequences import token_sequences


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What one pass over the rows says of every response token of the update, flat, row after row."""

    logprob: Tensor  # (actions,)
    entropy: Tensor  # (actions,)
    value: Tensor  # (actions,) zeros without a critic


def score(
    learner: Any,
    rows: Sequence[StepRow],
    accelerator: Any,
    batch_tokens: int,
    temperature: float,
    *,
    packed: bool = False,
) -> TokenScores:
    """Log-probability, entropy and value of all response tokens under `learner`, on the CPU. No observation is read."""
    starts = action_starts(rows)
    table = torch.zeros(3, starts[-1], device=accelerator.device)
    batches = micro_batches(token_sequences(rows, range(len(rows)), None), batch_tokens, packed=packed)
    with torch.no_grad():
        for chosen in deal(batches, accelerator.process_index, accelerator.num_processes):
            batch = pack(rows, starts, chosen, None, packed=packed).to(accelerator.device)
            out = learner(batch, temperature=temperature, entropy=True)
            for place, name in enumerate(("logprob", "entropy", "value")):
                if name in out:
                    table[place, batch.action_index] = out[name]
    reshard(learner)
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
            step = _clipped_gradient(learner, optimizer, experience, chosen, config, accelerator, kind, rho)
            norms = [value for name, value in step.items() if name.endswith("grad_norm")]
            if all(map(math.isfinite, [step["loss"], *norms])):
                optimizer.step()
                sums.update(step | {"steps": 1.0})
            else:
                sums["skipped"] += 1
    return diagnostics(sums)


def _clipped_gradient(
    learner: Any,
    optimizer: Any,
    experience: Experience,
    chosen: Sequence[int],
    config: UpdateConfig,
    accelerator: Any,
    kind: loss.WorldLoss,
    rho: float,
) -> dict[str, float]:
    """The gradient of a mini-batch, the policy's and the critic's part each within its own norm; its sums and norms."""

    def taken(terms: Sequence[Term]) -> dict[str, float]:
        optimizer.zero_grad(set_to_none=True)
        return gradient(learner, experience, chosen, config, accelerator, kind=kind, rho=rho, terms=terms)

    def norm(weights: Iterable[Any], most: float) -> float:
        return float(accelerator.clip_grad_norm_(weights, most))

    everything = list(learner.parameters())
    critic = accelerator.unwrap_model(learner).critic if experience.old_values is not None else None
    if critic is None:
        step = taken(EVERY_TERM)
        return step | {"grad_norm": norm(everything, config.max_norm)}
    if not isinstance(critic, SharedCritic):
        own = {id(weight) for weight in critic.parameters()}
        step = taken(EVERY_TERM)
        step["grad_norm"] = norm([w for w in everything if id(w) not in own], config.max_norm)
        return step | {"critic_grad_norm": norm([w for w in everything if id(w) in own], config.critic_max_norm)}
    acting = taken(("policy", "world"))
    acting["grad_norm"] = norm(everything, config.max_norm)
    kept = [weight.grad for weight in everything]
    valuing = taken(("value",))
    valuing["critic_grad_norm"] = norm(everything, config.critic_max_norm)
    for weight, other in zip(everything, kept, strict=True):
        if other is not None:
            weight.grad = other if weight.grad is None else weight.grad + other
    return valuing | acting | {"loss": acting["loss"] + valuing["loss"]}


def diagnostics(sums: Mapping[str, float]) -> dict[str, float]:
    """What the sums over all steps say: policy terms per step, world-model terms per row or token."""
    steps = max(1.0, sums.get("steps", 0.0))
    per_step = ("loss", "pg_loss", "clip_fraction", "dual_clip_fraction", "approx_kl", "entropy", "kl", "value_loss")
    norms = ("grad_norm", "critic_grad_norm")
    result = {name: sums[name] / steps for name in (*per_step, *norms) if name in sums}
    result |= {"steps": sums.get("steps", 0.0), "skipped": sums.get("skipped", 0.0)}
    if sums.get("world_tokens"):
        result["wm_loss"] = sums["world_loss"] / sums["world_rows"]
        result["wm_clipped_tokens"] = sums["world_clipped"] / sums["world_tokens"]
    if sums.get("world_noisy"):
        result["wm_noise_share"] = sums["world_noise"] / max(sums["world_slope"], 1e-12)
    return result
