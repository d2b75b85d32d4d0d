"""How a policy perceives an imagined observation: `soft` or `distilled` soft tokens, or `text`. One protocol for all.

Imagined observations are `Sight`s. Through `text` a policy reads what the narrator made of the latent, as it would read
anything: this serves every policy. Through soft tokens a language model reads its usual prompt, where the text of each
imagined observation is replaced by the adapter's Ks embeddings; what is known as text (goal, first observation, its own
actions, the admissible ones) stays text. Tokens that are not in the vocabulary have negative ids, so encoding,
batching, caches, generation and scoring are the ones of `policies.hf`.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from worldline.adwm.soft_tokens.adapter import Adapter
from worldline.policies.language_model.encoding import Encoder
from worldline.policies.language_model.hf import HFPolicy
from worldline.types import Exchange, Turn


class Sight(str):
    """A text with the latent (d,) of one member of an ensemble. Its number is its own for as long as the process."""

    latent: Tensor
    member: int
    number: int

    def __new__(cls, text: str, latent: Tensor, member: int = 0) -> Self:
        made = super().__new__(cls, text)
        made.latent, made.member, made.number = latent, member, next(_NUMBERS)
        _ALIVE[made.number] = made
        return made

    @staticmethod
    def of(number: int) -> "Sight":
        """The sight with this number; it must still be held by somebody, a turn for instance."""
        return _ALIVE[number]


_NUMBERS = itertools.count()
_ALIVE: "WeakValueDictionary[int, Sight]" = WeakValueDictionary()


_OPEN, _CLOSE = "\ue000", "\ue001"  # private use: no observation holds them in earnest
_MARK = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")


class SoftModel(nn.Module):
    """A causal language model that also understands the soft tokens of sights: ids -1, -2, ..., Ks to a sight."""

    def __init__(self, model: Any, adapters: Sequence[nn.Module], tokens: int) -> None:
        super().__init__()
        self.inner, self.adapters, self.tokens = model, nn.ModuleList(adapters), tokens
        self.config, self.generation_config = model.config, getattr(model, "generation_config", None)

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
        sights = [Sight.of(number) for number in distinct.tolist()]
        return embedded.masked_scatter(soft.unsqueeze(-1), self._soft(sights)[row, place].to(embedded.dtype))

    def _soft(self, sights: Sequence[Sight]) -> Tensor:
        """(N, Ks, width), each sight through the adapter of its own member."""
        of = [sight.member % len(self.adapters) for sight in sights]
        order = sorted(range(len(sights)), key=of.__getitem__)
        told = [
            adapter(torch.stack([sights[at].latent for at in order if of[at] == member]).to(self.device))
            for member, adapter in enumerate(self.adapters)
            if member in of
        ]
        back = torch.tensor(order, device=self.device).argsort()
        return torch.cat(told)[back]


class SoftEncoder(Encoder):
    """The policy's own encoder, with Ks negative ids in the place of each sight's text."""

    def __init__(self, plain: Encoder, tokens: int) -> None:
        super().__init__(plain.tokenizer, plain.template, plain.max_tokens, plain._history)
        self.tokens = tokens

    def _fitted(self, turns: Sequence[Turn]) -> Any:
        return super()._fitted([_marked(turn) for turn in turns])

    def _ids(self, texts: Sequence[str], remember: bool = True) -> list[list[int]]:
        pieces = [_MARK.split(text) for text in texts]  # text, number, text, number, ..., text
        plain = iter(super()._ids([piece for parts in pieces for piece in parts[::2]], remember))
        return [
            [token for at, part in enumerate(parts) for token in (self.soft_ids(int(part)) if at % 2 else next(plain))]
            for parts in pieces
        ]

    def soft_ids(self, number: int) -> list[int]:
        return [-1 - number * self.tokens - place for place in range(self.tokens)]


def _marked(turn: Turn) -> Turn:
    """The turn with marks for the texts that are sights."""
    past = tuple(Exchange(_mark(exchange.observation), exchange.action) for exchange in turn.history)
    return replace(turn, observation=_mark(turn.observation), history=past)


def _mark(text: str) -> str:
    return f"{_OPEN}{text.number}{_CLOSE}" if isinstance(text, Sight) else text


def soft_policy(policy: HFPolicy, adapters: Sequence[Adapter]) -> HFPolicy:
    """`policy` as it acts on soft tokens: `adapters` has one for each member of the ensemble. Shares its weights."""
    tokens = adapters[0].tokens
    model = SoftModel(policy.model, adapters, tokens).eval()
    return type(policy)(model, SoftEncoder(policy.encoder, tokens), policy.settings, policy.name)
