"""One token of every row from its logits and a draw in [0, 1): a pure function of tensors that waits for no device."""

from dataclasses import dataclass

import torch
from torch import Tensor

from worldline.policies.language_model.forward import entropy, entropy_of, log_softmax


@dataclass(frozen=True)
class Sampled:
    """The tokens drawn, their log-probabilities, and the entropies (nats) of what they were drawn from."""

    tokens: Tensor  # (rows,)
    logprobs: Tensor  # (rows,)
    entropies: Tensor  # (rows,)


def sample(logits: Tensor, draws: Tensor, temperature: float) -> Sampled:
    """The token at which the cumulative probability of (rows, vocabulary) passes each row's draw."""
    logprobs = log_softmax(logits, temperature)
    cumulative = logprobs.double().exp().cumsum(-1)
    aims = draws * cumulative[:, -1]
    tokens = torch.searchsorted(cumulative, aims[:, None], right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    entropies = entropy_of(logprobs) if temperature else entropy(logits, temperature)
    return Sampled(tokens, logprobs.gather(-1, tokens[:, None])[:, 0], entropies)
