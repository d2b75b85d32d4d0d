"""PaW inside TRL: a GRPOTrainer whose multi-turn completions also teach the model what the world answers.

TRL joins the turns of an episode into one completion and masks what the model did not write out of the policy loss
(`tool_mask`, or a rollout function's `env_mask`). Of those tokens the tools' own words are the targets here, without
the chat template's around them; a rollout function says which they are (`world_mask`), else all it masks. They are
scored at temperature 1, as `worldline train` does, whatever the actions are sampled at, from the forward pass that TRL
does anyway. What differs from `worldline train`: TRL shows one micro-batch at a time, so eq. 4's fraction is taken
within it, and eq. 11's mean of means is over its episodes. Liger's fused loss never shows log-probabilities and cannot
be used; images cannot either. Needs `worldline[trl]`, and rests on that version's insides.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from trl import GRPOTrainer

from worldline.integrations.tool_answers import Message, answer_mask
from worldline.integrations.trl_environment import OVER
from worldline.paw.logprobs import token_stats
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
        if self._is_vlm:
            raise InputError("a model that reads images: PaW learns what the world says in words, give a text model")
        self.max_return, self.alpha, self.rho, self.world_loss = max_return, alpha, rho, world_loss
        self._rewards: Tensor | None = None
        self._tokens: tuple[Tensor, Tensor] | None = None
        self._states: list[Tensor] = []
        self._answers: dict[tuple[int, ...], list[bool]] = {}
        self._world_masks: list[list[int]] | None = None
        if self.temperature != 1.0:
            self._keep_states()

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        rewards: Tensor = super()._calculate_rewards(*args, **kwargs)
        self._rewards = rewards  # (episodes of all ranks, reward functions)
        return rewards

    def _get_tool_suffix_ids(self, tool_messages: Sequence[Message]) -> list[int]:
        """TRL's tokens of some tool messages; which of them are the tools' words is noted."""
        ids: list[int] = super()._get_tool_suffix_ids(tool_messages)
        call = {"type": "function", "function": {"name": tool_messages[0]["name"], "arguments": {}}}
        before = [{"role": "user", "content": "dummy"}, {"role": "assistant", "content": "", "tool_calls": [call]}]

        def render(messages: Sequence[Message]) -> str:
            text: str = self.processing_class.apply_chat_template(
                [*before, *messages],
                add_generation_prompt=True,
                tokenize=False,
                chat_template=self.chat_template,
                **self.chat_template_kwargs,
            )
            return text

        whole, content = answer_mask(self._tokenizer, render, tool_messages)
        if whole[-len(ids) :] != ids:
            raise InputError("the tokenizer splits a tool's answer differently with and without its template")
        silent = any(message["content"] == OVER for message in tool_messages)
        self._answers[tuple(ids)] = [inside and not silent for inside in content[-len(ids) :]]
        return ids

    def _generate(self, prompts: Any) -> Any:
        self._answers = {}
        outputs = super()._generate(prompts)
        completion_ids, tool_mask, extra_fields = outputs[1], outputs[2], outputs[5]
        given = extra_fields.pop("world_mask", None)
        if tool_mask is None:
            self._world_masks = None
        elif self.tools:
            pairs = zip(completion_ids, tool_mask, strict=True)
            self._world_masks = [spoken_by_tools(ids, mask, self._answers) for ids, mask in pairs]
        else:
            self._world_masks = given or [[1 - own for own in mask] for mask in tool_mask]
        return outputs

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        output: dict[str, Any] = super()._generate_and_score_completions(inputs)
        assert self._rewards is not None
        paid = (self._rewards * self.reward_weights.to(self._rewards.device)).nansum(dim=1)
        size = self.num_generations if self.model.training else self.num_generations_eval
        groups = torch.arange(len(paid), device=paid.device) // size
        coefficients = adaptive_coefficients(paid.cpu(), groups.cpu(), self.max_return)[groups.cpu()]
        first = len(output["completion_ids"]) * self.accelerator.process_index
        output["world_coefficients"] = coefficients[first:][: len(output["completion_ids"])].to(paid)
        if self._world_masks is not None:
            output["world_mask"] = padded(self._world_masks, like=output["completion_ids"])
        return output

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        outputs = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if outputs[0].requires_grad:
            self._tokens = outputs[0], outputs[1]
        return outputs

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        self._tokens = None
        self._states.clear()
        loss: Tensor = super()._compute_loss(model, inputs)
        if self._tokens is None or "world_mask" not in inputs:
            return loss
        logprobs, entropies = self._tokens
        real, own = inputs["completion_mask"].bool(), inputs["tool_mask"].bool()
        answered = real & inputs["world_mask"].bool()
        if self.temperature != 1.0:
            logprobs = self._at_temperature_one(logprobs, inputs["completion_ids"], answered)
        world, logs = world_term(
            logprobs,
            entropies.detach(),
            real & own,
            answered,
            inputs["world_coefficients"],
            alpha=self.alpha,
            rho=self.rho,
            kind=self.world_loss,
        )
        for name, value in logs.items():
            self._metrics["train"][f"paw/{name}"].append(value)
        return loss + world / self.current_gradient_accumulation_steps

    def _keep_states(self) -> None:
        """Have each forward pass with a gradient leave its last states, from which any temperature can be had."""
        causal = getattr(self.model, "get_base_model", lambda: self.model)()
        settings = causal.config.get_text_config()
        scaled = ("final_logit_softcapping", "logit_scale", "output_multiplier", "lm_head_multiplier", "logits_scaling")
        if names := [name for name in scaled if getattr(settings, name, None) not in (None, 1.0)]:
            raise InputError(f"temperature: a model with {names[0]} can be trained at temperature 1 only")

        def keep(module: Any, arguments: Any, output: Any) -> None:
            if torch.is_grad_enabled():
                self._states.append(output.last_hidden_state)

        causal.base_model.register_forward_hook(keep)

    def _at_temperature_one(self, logprobs: Tensor, targets: Tensor, where: Tensor) -> Tensor:
        """`logprobs` with those at `where` computed again, without the temperature of the policy."""
        states = torch.cat(self._states)[:, :-1][:, -targets.shape[1] :]
        head = getattr(self.model, "get_base_model", lambda: self.model)().get_output_embeddings()
        weight, bias = (
            part.full_tensor() if hasattr(part, "full_tensor") else part for part in (head.weight, head.bias)
        )
        again = token_stats(states[where], weight, targets[where], bias=bias).logprob
        return logprobs.masked_scatter(where, again.to(logprobs))


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


def spoken_by_tools(
    completion_ids: Sequence[int], tool_mask: Sequence[int], answers: dict[tuple[int, ...], list[bool]]
) -> list[int]:
    """1 at the tools' own words: each stretch that the model did not write is one of `answers`."""
    spoken: list[int] = []
    for own, stretch in groupby(zip(tool_mask, completion_ids, strict=True), key=lambda pair: pair[0]):
        ids = tuple(token for _, token in stretch)
        spoken += [0] * len(ids) if own else map(int, answers[ids])
    return spoken


def padded(masks: Sequence[Sequence[int]], like: Tensor) -> Tensor:  # -> the shape of `like`
    """Rows of different lengths as one tensor, 0 behind their ends."""
    rows = torch.zeros_like(like)
    for row, mask in zip(rows, masks, strict=True):
        row[: len(mask)] = torch.tensor(mask)
    return rows


def turns(own: Tensor) -> Tensor:  # (episodes, time) bool -> (episodes, time)
    """Which action each token belongs to or answers, counted from 0; -1 before the first."""
    begins = own.clone()
    begins[:, 1:] &= ~own[:, :-1]
    return begins.cumsum(dim=1) - 1
