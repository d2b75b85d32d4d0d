"""Decoding token by token behind a batch of prompts, with caches that grow.

The plain way, on any device and for any attention; `in_place` does the same as a GPU likes it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from worldline.policies.language_model.draws import token_draws
from worldline.policies.language_model.forward import Model, Prefix, forward
from worldline.policies.language_model.sampling import sample


@dataclass(frozen=True)
class Sampling:
    """How responses are sampled, and when they end."""

    stops: Collection[int]
    most: int
    """Tokens of the longest response."""
    temperature: float


class Steps:
    """Decodes one token of every row at a time behind the prompts of `prefix`, and changes `prefix`."""

    def __init__(self, model: Model, prefix: Prefix) -> None:
        self._model, self._prefix, self._position = model, prefix, prefix.lengths

    def read(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of each row, (rows, vocabulary); valid until the next call."""
        prefix = self._prefix
        prefix.mask = pad(prefix.mask, (0, 1), value=1)
        logits = forward(self._model, tokens[:, None], prefix.mask, self._position[:, None], prefix.cache)[:, -1]
        self._position = self._position + 1
        return logits

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but `rows`."""
        self._prefix.keep(rows)
        self._position = self._position[rows]


@dataclass
class Response:
    """A sampled response: tokens with the end token, their log-probabilities, the entropy before each."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    entropies: list[float] = field(default_factory=list)

    def add(self, token: int, logprob: float, entropy: float) -> None:
        self.ids.append(token)
        self.logprobs.append(logprob)
        self.entropies.append(entropy)


def generate(model: Model, prefix: Prefix, seeds: Sequence[int], how: Sampling) -> list[Response]:
    """A sampled response to each row of `prefix`, which is changed."""
    responses = [Response() for _ in seeds]
    rows, going = list(range(len(seeds))), set(range(len(seeds)))
    logits, steps = prefix.logits, Steps(model, prefix)
    for place in range(how.most):
        draws = torch.from_numpy(token_draws([seeds[row] for row in rows], place, 1)[0]).to(logits.device)
        drawn = sample(logits, draws, how.temperature)
        tokens = drawn.tokens
        columns = zip(rows, tokens.tolist(), drawn.logprobs.tolist(), drawn.entropies.tolist(), strict=True)
        for row, token, logprob, spread in columns:
            if row in going:
                responses[row].add(token, logprob, spread)
        going = {row for row in going if responses[row].ids[-1] not in how.stops}
        if not going or place + 1 == how.most:
            break
        if 2 * len(going) <= len(rows):  # copying costs as much as some decoding
            kept = torch.tensor([i for i, row in enumerate(rows) if row in going], device=tokens.device)
            steps.keep(kept)
            tokens, rows = tokens[kept], [row for row in rows if row in going]
        logits = steps.read(tokens)
    return responses
