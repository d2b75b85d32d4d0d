"""PaW inside TRL: a GRPOTrainer whose multi-turn completions also teach the model what the world answers.

TRL joins the turns of an episode into one completion and masks the world's answers out of the policy loss (`tool_mask`,
or a rollout function's `env_mask`). Those masked tokens are the targets here; their log-probabilities come from the
forward pass that TRL does anyway. What differs from `worldline train`: TRL shows one micro-batch at a
time, so eq. 4's fraction is taken within it, and eq. 11's mean of means is over its episodes. Liger's fused loss never
shows log-probabilities and cannot be used. Needs `worldline[trl]`.
"""

from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from worldline.paw.loss import WorldLoss, world_model_loss
from worldline.paw.objective import adaptive_coefficients
from worldline.paw.selection import select
from worldline.types import InputError


class PaWTrainer(GRPOTrainer):  # type: ignore[misc]  # TRL has no types
    """TRL's GRPOTrainer with PaW's world-model loss; everything else is TRL's.

    `max_return` is the largest return of an episode: eq. 10 weights each group by its distance from it.
    """

    def __init__(
        self,
        *args: Any,
        max_return: float = 1.0,
        alpha: float = 0.75,
        rho: float = 0.2,
        world_loss: WorldLoss = "cmae",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if getattr(self.args, "use_liger_kernel", False):
            raise InputError(
                "use_liger_kernel: the fused loss keeps no log-probabilities, which PaW needs; turn it off"
            )
        self.max_return, self.alpha, self.rho, self.world_loss = max_return, alpha, rho, world_loss
        self._rewards: Tensor | None = None
        self._tokens: tuple[Tensor, Tensor] | None = None

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(*args, **kwargs)
        self._rewards = rewards  # (episodes of all ranks, reward functions)
        return rewards

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        assert self._rewards is not None
        paid = (self._rewards * self.reward_weights.to(self._rewards.device)).nansum(dim=1)
        size = self.num_generations if self.model.training else self.num_generations_eval
        groups = torch.arange(len(paid), device=paid.device) // size
        coefficients = adaptive_coefficients(paid.cpu(), groups.cpu(), self.max_return)[groups.cpu()]
        first = len(output["completion_ids"]) * self.accelerator.process_index
        output["world_coefficients"] = coefficients[first:][: len(output["completion_ids"])].to(paid)
        return output

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if outputs[0].requires_grad:
            self._tokens = outputs[0], outputs[1]
        return outputs

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self._tokens = None
        loss: Tensor = super()._compute_loss(model, inputs)
        if self._tokens is None or "tool_mask" not in inputs:
            return loss
        logprobs, entropies = self._tokens
        real, own = inputs["completion_mask"].bool(), inputs["tool_mask"].bool()
        world, logs = world_term(
            logprobs,
            entropies.detach(),
            real & own,
            real & ~own,
            inputs["world_coefficients"],
            alpha=self.alpha,
            rho=self.rho,
            kind=self.world_loss,
        )
        for name, value in logs.items():
            self._metrics["train"][f"paw/{name}"].append(value)
        return loss + world / self.current_gradient_accumulation_steps


def world_term(
    logprobs: Tensor,  # (episodes, time)
    entropies: Tensor,  # (episodes, time)
    own: Tensor,  # (episodes, time) bool, the model's own tokens
    world: Tensor,  # (episodes, time) bool, the world's answers
    coefficients: Tensor,  # (episodes,) lambda of each one's group
    *,
    alpha: float = 0.75,
    rho: float = 0.2,
    kind: WorldLoss = "cmae",
) -> tuple[Tensor, dict[str, float]]:
    """Mean over episodes of lambda times the mean over its selected transitions of their loss (eq. 4, 7-11)."""
    turn = turns(own)
    spoken = turn >= 0  # the world's text before the first action answers no action
    episode = torch.arange(len(turn), device=turn.device)[:, None].expand_as(turn)
    label = episode * turn.shape[1] + turn
    owner, count = torch.unique(label[spoken]), turn.shape[1]
    place = torch.searchsorted(owner, label.clamp(min=0))
    targets = world & spoken
    size = torch.zeros(len(owner), device=turn.device).index_add_(0, place[targets], torch.ones_like(logprobs[targets]))
    words = torch.zeros_like(size).index_add_(0, place[own], torch.ones_like(logprobs[own]))
    entropy = torch.zeros_like(size).index_add_(0, place[own], entropies[own]) / words.clamp(min=1)
    chosen = select(entropy.cpu(), (size > 0).cpu(), alpha).to(turn.device)
    of = owner // count
    several = torch.bincount(of[chosen], minlength=len(turn)).clamp(min=1)
    weight = torch.where(chosen, (coefficients.to(size) / (len(turn) * several))[of] / size.clamp(min=1), 0.0)
    total, logs = world_model_loss(logprobs[targets], weight[place[targets]], kind, rho)
    metrics = {
        "world_loss": float(total.detach()),
        "lambda": float(coefficients.mean()),
        "clipped_tokens": float(logs["clipped"]) / max(1, int(targets.sum())),
    }
    return total, metrics


def turns(own: Tensor) -> Tensor:  # (episodes, time) bool -> (episodes, time)
    """Which action each token belongs to or answers, counted from 0; -1 before the first."""
    begins = own.clone()
    begins[:, 1:] &= ~own[:, :-1]
    return begins.cumsum(dim=1) - 1
