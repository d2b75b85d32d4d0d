"""The distilled adapter: soft tokens on which a policy acts as it does on the text (design, section 4.6).

The network is `adapter.Adapter`, trained by the KL divergence between the policy's next-token distributions given the
text of logged episodes and given the soft tokens of their latents, along the logged actions (teacher forcing). In a
transcript that is every action of an episode in one sequence; elsewhere one prompt per step. The policy is frozen. What
a policy that chooses prefers among admissible actions is a function of these distributions, so one loss serves both.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from worldline.adwm.ensemble import Member
from worldline.adwm.soft_tokens.adapter import Adapter
from worldline.adwm.soft_tokens.tokens import soft_policy
from worldline.adwm.world_model_env import ImaginedObservation
from worldline.policies.language_model.encoding import EncodedExample
from worldline.policies.language_model.forward import left_padded, positions, takes_positions
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import Exchange, InputError, ScoringPolicy, Trajectory, Turn, derive_seed, turns

_BATCH, _CLIP = 8, 1.0
_SHARE_APART = 0.15
"""Share of the episodes that are held out."""


class DistillationConfig(BaseModel):
    """How an adapter is distilled. All numbers are ours: the paper has no such adapter."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    episodes: int = 256
    """Logged episodes that are used at most."""
    epochs: int = 4
    rate: float = 1e-3
    compared: int = 64
    """Held-out steps on which the choice among admissible actions is compared."""


@dataclass(frozen=True)
class Distilled:
    """An adapter, and on held-out episodes: KL (nats per token) before and after, agreement of the preferred action."""

    adapter: Adapter
    figures: dict[str, float]


@dataclass(frozen=True)
class _Pair:
    """One logged sequence as text and with soft tokens; the last action tokens of both are the same."""

    text: EncodedExample
    soft: EncodedExample
    turn: Turn
    """Holds the imagined observations that `soft` names."""


def distil(
    policy: HFPolicy,
    member: Member,
    index: int,
    episodes: Sequence[Trajectory],
    adapter: Adapter,
    config: DistillationConfig,
    *,
    seed: int = 0,
) -> Distilled:
    """Train a copy of `adapter` for `policy` and member number `index` on the log; whole episodes are held out."""
    rng = np.random.default_rng(derive_seed(seed, "distillation"))
    order = [int(n) for n in rng.permutation(len(episodes))][: config.episodes]
    apart = order[: max(1, round(_SHARE_APART * len(order)))]
    if len(order) - len(apart) < 1:
        raise InputError("the log has one episode: too few to distil an adapter; --interface soft or text")
    places = torch.split(member.decoder.latents, [len(episode) for episode in episodes])
    learner = deepcopy(adapter).train().requires_grad_(True)
    soft = soft_policy(policy, [learner] * (index + 1))
    training = list(_pairs(policy, soft, [imagined_turns(episodes[n], places[n], index) for n in order[len(apart) :]]))
    kept = [imagined_turns(episodes[n], places[n], index) for n in apart]
    testing = list(_pairs(policy, soft, kept))
    before = _held_out(policy, soft, testing, kept, config)
    optimizer = torch.optim.Adam(learner.parameters(), lr=config.rate)
    total = config.epochs * -(-len(training) // _BATCH)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, max(1, total))
    for _ in range(config.epochs):
        shown = rng.permutation(len(training))
        for start in range(0, len(shown), _BATCH):
            loss = _divergence(policy, soft, [training[at] for at in shown[start : start + _BATCH]]).mean()
            optimizer.zero_grad()
            loss.backward(inputs=list(learner.parameters()))  # type: ignore[no-untyped-call]  # torch gives it no types
            torch.nn.utils.clip_grad_norm_(learner.parameters(), _CLIP)
            optimizer.step()
            schedule.step()
    learner.eval().requires_grad_(False)
    after = _held_out(policy, soft, testing, kept, config)
    figures = {f"{name}_before": value for name, value in before.items()}
    return Distilled(learner, figures | {f"{name}_after": value for name, value in after.items()})


def imagined_turns(
    episode: Trajectory, latents: Sequence[Tensor] | Tensor, member: int = 0
) -> list[tuple[Turn, Turn, str]]:
    """Each step of a logged episode: the turn as it was, as it would be imagined, and the logged action."""
    answers = [step.observation for step in episode.steps]
    observations = [
        answers[0],
        *(ImaginedObservation(text, z, member) for text, z in zip(answers[1:], latents, strict=False)),
    ]
    steps = []
    for at, (turn, step) in enumerate(zip(turns(episode), episode.steps, strict=True)):
        past = tuple(
            Exchange(seen, exchange.action) for seen, exchange in zip(observations, turn.history, strict=False)
        )
        steps.append((turn, replace(turn, observation=observations[at], history=past), step.action))
    return steps


def _pairs(policy: HFPolicy, soft: HFPolicy, episodes: Sequence[Sequence[tuple[Turn, Turn, str]]]) -> Iterator[_Pair]:
    """Whole transcripts, or the steps of the other templates. A step that was not imagined teaches nothing."""
    for steps in episodes:
        chosen = steps if policy.encoder.template.chat else steps[-1:]
        for turn, imagined, action in chosen:
            if imagined.history:
                yield _Pair(policy.encoder.example(turn, action), soft.encoder.example(imagined, action), imagined)


def _divergence(policy: HFPolicy, soft: HFPolicy, batch: Sequence[_Pair]) -> Tensor:
    """KL(pi(. | text) || pi(. | soft tokens)) at every action token that both sequences hold, (N,)."""
    counts = [min(sum(pair.text.is_action), sum(pair.soft.is_action)) for pair in batch]
    with torch.no_grad():
        given_text = _logprobs(policy.model, [pair.text for pair in batch], counts)
    given_soft = _logprobs(soft.model, [pair.soft for pair in batch], counts)
    return (given_text.exp() * (given_text - given_soft)).sum(-1)


def _logprobs(model: Any, examples: Sequence[EncodedExample], counts: Sequence[int]) -> Tensor:
    """Log-probabilities (N, V) before each of the last `counts` action tokens of each sequence."""
    ids, mask = left_padded([example.ids for example in examples], model.device)
    longest = ids.shape[1]
    wanted = [
        (row, longest - len(example.ids) + at - 1)
        for row, (example, count) in enumerate(zip(examples, counts, strict=True))
        for at in [at for at, is_action in enumerate(example.is_action) if is_action][-count:]
    ]
    columns = sorted({column for _, column in wanted})
    where = {column: at for at, column in enumerate(columns)}
    placed = {"position_ids": positions(mask)} if takes_positions(model) else {}
    keep = torch.tensor(columns, device=model.device)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=keep, **placed).logits
    rows, kept = [row for row, _ in wanted], [where[column] for _, column in wanted]
    return torch.log_softmax(logits[rows, kept].float(), -1)


@torch.no_grad()
def _held_out(
    policy: HFPolicy,
    soft: HFPolicy,
    pairs: Sequence[_Pair],
    episodes: Sequence[Sequence[tuple[Turn, Turn, str]]],
    config: DistillationConfig,
) -> dict[str, float]:
    soft.model.eval()
    divergences = [_divergence(policy, soft, pairs[at : at + _BATCH]) for at in range(0, len(pairs), _BATCH)]
    figures = {"kl": float(torch.cat(divergences).mean()) if divergences else float("nan")}
    steps = [step for episode in episodes for step in episode if step[1].history and step[0].admissible]
    return figures | compared(policy, soft, steps[:: max(1, len(steps) // config.compared)])


def compared(policy: HFPolicy, soft: HFPolicy, steps: Sequence[tuple[Turn, Turn, str]]) -> dict[str, float]:
    """What the policy prefers among admissible actions, given text and given soft tokens: KL and agreement."""
    if not (steps and isinstance(policy, ScoringPolicy) and isinstance(soft, ScoringPolicy)):
        return {}
    actions = [tuple(dict.fromkeys(turn.admissible or ())) for turn, _, _ in steps]
    given_text = [_normal(row) for row in policy.logprobs([turn for turn, _, _ in steps], actions)]
    given_soft = [_normal(row) for row in soft.logprobs([imagined for _, imagined, _ in steps], actions)]
    return {
        "choice_kl": float(np.mean([(p.exp() * (p - q)).sum() for p, q in zip(given_text, given_soft, strict=True)])),
        "agreement": float(
            np.mean([int(p.argmax()) == int(q.argmax()) for p, q in zip(given_text, given_soft, strict=True)])
        ),
    }


def _normal(logprobs: Any) -> Tensor:
    """Log-probabilities over the listed actions alone, none of them quite 0."""
    return torch.log_softmax(torch.from_numpy(np.asarray(logprobs)).clamp(min=-60.0), 0)
