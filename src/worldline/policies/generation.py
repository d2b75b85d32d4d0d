"""Sampling responses in batches: a decode loop of our own, because a row's draws must not depend on its company.

Each row has one uniform number per position, from its own seed, and takes the token that inverse-CDF sampling
gives. Rows that have ended leave the batch when they are half of it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from worldline.policies.choice import uniform
from worldline.policies.decoding import begin
from worldline.policies.forward import Model, Prefix, entropy, log_softmax


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


def generate(
    model: Model,
    prefix: Prefix,
    seeds: Sequence[int],
    *,
    stops: Collection[int],
    max_new_tokens: int,
    temperature: float,
) -> list[Response]:
    """A response to each row of `prefix` (which is used up)."""
    responses = [Response() for _ in seeds]
    rows, going = list(range(len(seeds))), set(range(len(seeds)))
    logits, steps, since = prefix.logits, begin(model, prefix, max_new_tokens - 1), 0
    for place in range(max_new_tokens):
        draws = [uniform(seeds[row], "token", place) if row in going else 0.0 for row in rows]
        tokens, logprobs, entropies = _sample(logits, draws, temperature)
        for row, token, logprob, spread in zip(rows, tokens.tolist(), logprobs, entropies, strict=True):
            if row in going:
                responses[row].add(token, logprob, spread)
        going = {row for row in going if responses[row].ids[-1] not in stops}
        if not going or place + 1 == max_new_tokens:
            break
        if 2 * len(going) <= len(rows) and place - since >= steps.patience:  # copying costs as much as some decoding
            kept = torch.tensor([i for i, row in enumerate(rows) if row in going], device=tokens.device)
            steps.keep(kept)
            tokens, since = tokens[kept], place
            rows = [row for row in rows if row in going]
        logits = steps.read(tokens)
    return responses


def _sample(logits: Tensor, draws: Sequence[float], temperature: float) -> tuple[Tensor, list[float], list[float]]:
    """The token each draw gives, its log-probability, and the entropy of the distribution it came from."""
    logprobs = log_softmax(logits, temperature)
    cumulative = logprobs.double().exp().cumsum(-1)
    aims = torch.tensor(draws, dtype=torch.float64, device=logits.device) * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, aims[:, None], right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    chosen = logprobs.gather(-1, tokens[:, None])[:, 0]
    return tokens, chosen.tolist(), entropy(logits, temperature).tolist()
