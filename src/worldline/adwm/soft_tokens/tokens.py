"""Soft tokens in a language model's prompt: the text of each imagined observation is replaced by Ks embeddings.

What the agent really knows as text (goal, first observation, its own actions, the admissible ones) stays text. Soft
tokens have negative ids, so encoding, batching, caches, generation and scoring are those of `policies.language_model`.
The encoder notes which imagined observations the turns at hand hold, and the model looks their latents up there.
"""

import re
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from worldline.adwm.soft_tokens.adapter import Adapter
from worldline.adwm.world_model_env import ImaginedObservation
from worldline.policies.language_model.encoding import Encoder, Piece
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import Exchange, Turn

_OPEN, _CLOSE = "\ue000", "\ue001"  # private use: no observation holds them in earnest
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
Observations: TypeAlias = MutableMapping[int, ImaginedObservation]
"""Imagined observations by number, for as long as a turn holds them."""


class SoftModel(nn.Module):
    """A causal language model that also reads soft tokens: ids -1, -2, ..., Ks to an imagined observation."""

    def __init__(self, model: Any, adapters: Sequence[nn.Module], tokens: int, observations: Observations) -> None:
        super().__init__()
        self.inner, self.adapters, self.tokens = model, nn.ModuleList(adapters), tokens
        self.config, self.generation_config = model.config, getattr(model, "generation_config", None)
        self._observations = observations

    @property
    def device(self) -> torch.device:
        return torch.device(self.inner.device)

    @property
    def dtype(self) -> torch.dtype:
        kind: torch.dtype = self.inner.dtype
        return kind

    def get_base_model(self) -> Any:
        """The language model itself; the name is peft's."""
        return self.inner.get_base_model() if hasattr(self.inner, "get_base_model") else self.inner

    def forward(self, input_ids: Tensor, **given: Any) -> Any:
        if not bool((input_ids < 0).any()):
            return self.inner(input_ids=input_ids, **given)
        return self.inner(inputs_embeds=self.embed(input_ids), **given)

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) to (B, T, width): the table's rows, and the adapter's for soft tokens; gradients reach latents."""
        embedded: Tensor = self.inner.get_input_embeddings()(ids.clamp(min=0))
        soft = ids < 0
        numbers, place = (-1 - ids[soft]) // self.tokens, (-1 - ids[soft]) % self.tokens
        distinct, row = torch.unique(numbers, return_inverse=True)
        observations = [self._observations[number] for number in distinct.tolist()]
        return embedded.masked_scatter(soft.unsqueeze(-1), self._adapted(observations)[row, place].to(embedded.dtype))

    def _adapted(self, observations: Sequence[ImaginedObservation]) -> Tensor:
        """(N, Ks, width), each observation through the adapter of its own member."""
        of = [observation.member % len(self.adapters) for observation in observations]
        order = sorted(range(len(observations)), key=of.__getitem__)
        soft = [
            adapter(torch.stack([observations[at].latent for at in order if of[at] == member]).to(self.device))
            for member, adapter in enumerate(self.adapters)
            if member in of
        ]
        back = torch.tensor(order, device=self.device).argsort()
        return torch.cat(soft)[back]


class SoftEncoder(Encoder):
    """The policy's own encoder, with Ks negative ids in the place of each imagined observation's text."""

    def __init__(self, plain: Encoder, tokens: int, observations: Observations) -> None:
        super().__init__(plain.tokenizer, plain.template, plain.max_tokens, plain.history)
        self.tokens = tokens
        self._observations = observations

    def pieces(self, turns: Sequence[Turn]) -> list[list[Piece]]:
        return super().pieces([self._marked(turn) for turn in turns])

    def tokenised(self, texts: Sequence[str]) -> list[list[int]]:
        parts = [_MARK.split(text) for text in texts]  # text, number, text, number, ..., text
        plain = iter(super().tokenised([part for split in parts for part in split[::2]]))
        return [
            [token for at, part in enumerate(split) for token in (self._ids(int(part)) if at % 2 else next(plain))]
            for split in parts
        ]

    def soft_ids(self, observation: ImaginedObservation) -> list[int]:
        """The ids that stand for an observation while somebody holds it."""
        self._observations[observation.number] = observation
        return self._ids(observation.number)

    def _ids(self, number: int) -> list[int]:
        return [-1 - number * self.tokens - place for place in range(self.tokens)]

    def _marked(self, turn: Turn) -> Turn:
        """The turn with marks for the texts that were imagined."""
        past = tuple(Exchange(self._mark(exchange.observation), exchange.action) for exchange in turn.history)
        return replace(turn, observation=self._mark(turn.observation), history=past)

    def _mark(self, text: str) -> str:
        if not isinstance(text, ImaginedObservation):
            return text
        self._observations[text.number] = text
        return f"{_OPEN}{text.number}{_CLOSE}"


def soft_policy(policy: HFPolicy, adapters: Sequence[Adapter]) -> HFPolicy:
    """`policy` as it acts on soft tokens: `adapters` has one for each member of the ensemble. Shares its weights."""
    tokens = adapters[0].tokens
    observations: Observations = WeakValueDictionary()
    model = SoftModel(policy.model, adapters, tokens, observations).eval()
    return type(policy)(model, SoftEncoder(policy.encoder, tokens, observations), policy.settings, policy.name)
