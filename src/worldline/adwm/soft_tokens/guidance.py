"""Continuation guidance through the policy (ADWM equations 9 and 35-37, Hc = 1): grad log pi_e(a_{t+1} | G_psi(z_hat)).

The policy reads its usual prompt with the denoised estimate of the next observation as soft tokens; a_{t+1} is what it
does then. The part of the prompt before that observation is the same at every diffusion step, so it is read once.
Scaling, annealing and clipping are `diffusion.guided`'s. Section 4 of the design says why this is a bias when the
model is exact; the default configuration leaves it out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from transformers import DynamicCache

from worldline.adwm.diffusion import LogPolicy
from worldline.adwm.soft_tokens.tokens import SoftEncoder
from worldline.adwm.world_model_env import Batch, Guide, ImaginedEnvironment, ImaginedObservation
from worldline.policies.language_model.decoding import Sampling
from worldline.policies.language_model.forward import (
    ROOM,
    Model,
    Prefix,
    chunks,
    empty_cache,
    forward,
    inference,
    left_padded,
    positions,
    read,
    shares_prefix,
)
from worldline.policies.language_model.hf import HFPolicy
from worldline.policies.language_model.in_place import respond_behind
from worldline.types import Exchange, InputError, Turn, derive_seed


def guide_through(policy: HFPolicy, redraw: int = 1) -> Guide:
    """The guide of a soft policy (`tokens.soft_policy`); a_{t+1} is drawn anew at every `redraw`-th diffusion step.

    The next list of admissible actions comes with the next observation: until then the present one stands for it.
    """
    if not isinstance(policy.encoder, SoftEncoder):
        raise InputError(
            f"{policy.name}: guidance needs the gradient through soft tokens: --interface soft or distilled"
        )
    # The guesses are read once and never again: they must not push real histories out of the policy's prefix cache.
    forgetful = type(policy)(
        policy.model, policy.encoder, policy.settings.model_copy(update={"cache_gib": 0.0}), policy.name
    )

    def guide(batch: Batch) -> LogPolicy:
        members = [environment.member for environment in batch]
        return Continuation(forgetful, [_next_turn(environment) for environment in batch], members, redraw)

    return guide


def _next_turn(environment: ImaginedEnvironment) -> Turn:
    """The turn after the pending action, its observation still to be put in."""
    done = [*environment.state.actions, environment.action or ""]
    return Turn(
        family=environment.family,
        goal=environment.state.goal,
        observation="",
        admissible=environment.allowed or None,
        history=tuple(Exchange(*pair) for pair in zip(environment.shown, done, strict=True)),
        seed=derive_seed(environment.seed, "continuation", len(done)),
    )


@dataclass(frozen=True)
class _Read:
    """What comes before the next observation, read once: keys and values by layer, and which are tokens."""

    layers: list[tuple[Tensor, Tensor]]
    mask: Tensor

    def cache(self, model: Model) -> DynamicCache:
        """A cache that begins with it and grows by copying, so that nothing is written into what is shared."""
        cache = DynamicCache(config=model.config)
        for layer, (keys, values) in zip(cache.layers, self.layers, strict=True):
            layer.lazy_initialization(keys, values)
            layer.keys, layer.values = keys, values
        return cache

    def copy(self, model: Model) -> DynamicCache:
        """A cache of its own, with room for what is generated: one copy now instead of one for every token."""
        cache = empty_cache(model)
        for layer, held in zip(cache.layers, self.layers, strict=True):
            keys, values = (torch.nn.functional.pad(one, (0, 0, 0, ROOM)) for one in held)
            layer.fill(keys, values, held[0].shape[-2])
        return cache


class Continuation:
    """log pi_e of the policy's own next action, as a differentiable function of the next latents (B, d)."""

    def __init__(self, policy: HFPolicy, turns: Sequence[Turn], members: Sequence[int], redraw: int) -> None:
        assert isinstance(policy.encoder, SoftEncoder)
        self._policy, self._turns, self._members, self._redraw = policy, turns, members, redraw
        self._encoder = policy.encoder
        self._written = self._around()
        self._calls = 0
        self._actions: dict[int, list[int]] = {}
        self._read: dict[tuple[int, ...], _Read | None] = {}
        settings = policy.settings
        self._temperature = 1.0 if settings.mode == "choose" else settings.temperature or 1.0

    def __call__(self, z: Tensor) -> Tensor:
        observations = [ImaginedObservation("", row, member) for row, member in zip(z, self._members, strict=True)]
        if not self._read:
            self._read_ahead()
        log_probs: dict[int, Tensor] = {}
        for rows, past in self._read.items():
            behind = [self._behind(row, observations[row], past is not None) for row in rows]
            if self._calls % self._redraw == 0:
                turns = [replace(self._turns[row], observation=observations[row]) for row in rows]
                drawn = self._drawn(turns, behind, past)
                self._actions |= dict(zip(rows, drawn, strict=True))
            values = self._scored(behind, [self._actions[row] for row in rows], past)
            log_probs |= dict(zip(rows, values, strict=True))
        self._calls += 1
        # a prompt that had no room for the observation does not depend on it, and its gradient is 0
        return torch.stack([log_probs[row] for row in range(len(self._turns))]).to(z.device) + 0 * z.sum(-1)

    def _around(self) -> list[tuple[list[int], list[int] | None]]:
        """Each prompt before and behind the observation that is to come: only that changes as the diffusion goes on."""
        observations = [ImaginedObservation("", torch.empty(0), member) for member in self._members]
        turns = [
            replace(turn, observation=observation) for turn, observation in zip(self._turns, observations, strict=True)
        ]
        written: list[tuple[list[int], list[int] | None]] = []
        for prompt, observation in zip(self._encoder.prompts(turns), observations, strict=True):
            first = self._encoder.soft_ids(observation)[0]
            at = prompt.index(first) if first in prompt else None
            # Where the budget left no room for the observation, nothing depends on it.
            written.append((prompt, None) if at is None else (prompt[:at], prompt[at + self._encoder.tokens :]))
        return written

    def _behind(self, row: int, observation: ImaginedObservation, read: bool) -> list[int]:
        """What follows what was read: the observation and the rest; with nothing read, the whole prompt."""
        before, rest = self._written[row]
        if rest is None:
            return before
        return [*([] if read else before), *self._encoder.soft_ids(observation), *rest]

    @torch.no_grad()
    def _read_ahead(self) -> None:
        """The batches, and what is the same in them at every diffusion step."""
        model, longest = self._policy.model, self._policy.max_new_tokens
        sizes = [len(before) + len(rest or ()) + self._encoder.tokens + longest for before, rest in self._written]
        for rows in chunks(sizes, self._policy.settings.batch_tokens):
            before = [self._written[row][0] for row in rows]
            shared = shares_prefix(model) and all(before) and all(self._written[row][1] is not None for row in rows)
            self._read[tuple(rows)] = _kept(read(model, before)) if shared else None

    def _drawn(self, turns: Sequence[Turn], behind: Sequence[list[int]], past: _Read | None) -> list[list[int]]:
        """The tokens of the action that the policy takes now, from the turn's own seed."""
        policy = self._policy
        if past is None or policy.settings.mode == "choose":
            return [list(decision.token_ids or ()) for decision in policy.act(turns)]
        with inference(policy.model):
            responses = respond_behind(
                policy.model,
                policy.sampler,
                self._forward(behind, past, past.copy(policy.model), keep=1),
                [turn.seed for turn in turns],
                Sampling(policy.stops, policy.max_new_tokens, policy.settings.temperature),
            )
        return [response.ids for response in responses]

    def _scored(self, behind: Sequence[list[int]], actions: Sequence[list[int]], past: _Read | None) -> Tensor:
        """(rows,): the log-probability of each row's action behind its prompt."""
        whole = [[*prompt, *action] for prompt, action in zip(behind, actions, strict=True)]
        longest = max(len(action) for action in actions)
        cache = None if past is None else past.cache(self._policy.model)
        logits = self._forward(whole, past, cache, keep=longest + 1).logits[:, :-1] / self._temperature
        tokens, real = left_padded(actions, logits.device)
        each = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)
        return (each * real).sum(-1)

    def _forward(
        self, behind: Sequence[list[int]], past: _Read | None, cache: DynamicCache | None, keep: int
    ) -> Prefix:
        """Read on after what was read; the logits are those of the last `keep` positions (of one: without its axis)."""
        model = self._policy.model
        ids, new = left_padded(behind, model.device)
        mask = new if past is None else torch.cat([past.mask, new], 1)
        places = positions(new) + (0 if past is None else past.mask.sum(1, keepdim=True))
        logits = forward(model, ids, mask, places, cache, keep=keep)
        return Prefix(cache, mask, logits[:, -1] if keep == 1 else logits)


def _kept(prefix: Prefix) -> _Read:
    return _Read([(layer.keys, layer.values) for layer in prefix.cache.layers], prefix.mask)
