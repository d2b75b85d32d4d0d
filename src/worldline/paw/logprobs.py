"""Log-probability and entropy of chosen tokens, straight from hidden states, without keeping the logits.

A (batch, time, vocabulary) float32 tensor of logits is the largest thing in a naive update. Only the tokens that a
loss looks at need logits at all, and those are computed in chunks, reduced to two numbers a token, and computed
again in the backward pass. The result does not depend on the chunk size.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHUNK_LOGITS = {"cuda": 2**27, "cpu": 2**22}
"""Logits alive at a time: enough to keep the device busy, small beside the activations."""


@dataclass(frozen=True, slots=True)
class TokenStats:
    """What the losses need of each token; `entropy` is None unless requested."""

    logprob: Tensor  # (tokens,) float32, of the sampled token
    entropy: Tensor | None  # (tokens,) float32, of the whole vocabulary, nats


def token_stats(
    hidden: Tensor,  # (tokens, width) the states that predict the targets
    head: Tensor,  # (vocabulary, width)
    targets: Tensor,  # (tokens,)
    *,
    bias: Tensor | None = None,  # (vocabulary,)
    temperature: float = 1.0,
    entropy: bool = False,
    chunk: int | None = None,
) -> TokenStats:
    """Differentiable in `hidden`, `head` and `bias`; runs in autocast's dtype where it is on, sums in float32."""
    size = chunk or max(1, CHUNK_LOGITS.get(hidden.device.type, 2**24) // head.shape[0])
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else head.dtype
    logprob, spread = _Chunked.apply(hidden, head, bias, targets, temperature, entropy, size, dtype)  # type: ignore[no-untyped-call]  # torch gives it no types
    return TokenStats(logprob, spread if entropy else None)


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        entropy: bool,
        size: int,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        precision = torch.promote_types(dtype, torch.float32)
        weight = head.to(dtype)
        logprob = torch.empty(len(targets), dtype=precision, device=hidden.device)
        spread = torch.zeros_like(logprob)
        for part in _parts(len(targets), size):
            logp = _log_softmax(hidden[part].to(dtype), weight, bias, temperature, precision)
            logprob[part] = logp.gather(1, targets[part, None])[:, 0]
            if entropy:
                spread[part] = -(logp.exp() * logp).sum(dim=1)
        ctx.save_for_backward(hidden, head, bias, targets, spread)
        ctx.set_materialize_grads(False)  # an entropy that is only logged costs no backward pass
        ctx.temperature, ctx.precision, ctx.size, ctx.dtype = temperature, precision, size, dtype
        return logprob, spread

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """d logprob / d logits = onehot - p;  d entropy / d logits = -p (log p + entropy).

        Tokens that nothing depends on (clipped observations, actions of advantage 0) are not computed again.
        """
        hidden, head, bias, targets, spread = ctx.saved_tensors
        weight = head.to(ctx.dtype)
        to_hidden, to_head, to_bias = ctx.needs_input_grad[:3]
        grad_hidden = torch.zeros_like(hidden) if to_hidden else None
        grad_head = torch.zeros_like(head) if to_head else None
        grad_bias = torch.zeros_like(bias) if to_bias else None
        by_logprob, by_entropy = (grad if grad is None else grad[:, None] / ctx.temperature for grad in grads)
        for live in torch.split(_live(by_logprob, by_entropy), ctx.size):
            states = hidden[live].to(ctx.dtype)
            logp = _log_softmax(states, weight, bias, ctx.temperature, ctx.precision)
            slope: Tensor | float = 0.0  # what -p is to be multiplied by
            if by_logprob is not None:
                slope = by_logprob[live]
            if by_entropy is not None:
                slope = slope + by_entropy[live] * (logp + spread[live, None])
            grad = logp.exp_().mul_(slope).neg_()
            if by_logprob is not None:
                grad.scatter_add_(1, targets[live, None], by_logprob[live])
            logits = grad.to(ctx.dtype)
            if grad_hidden is not None:
                grad_hidden[live] = (logits @ weight).to(hidden.dtype)
            if grad_head is not None:
                grad_head += logits.t() @ states
            if grad_bias is not None:
                grad_bias += logits.sum(dim=0)
        return grad_hidden, grad_head, grad_bias, None, None, None, None, None


def _live(*grads: Tensor | None) -> Tensor:  # (live tokens,)
    """The tokens that some gradient reaches."""
    reached = [grad[:, 0] != 0 for grad in grads if grad is not None]
    return torch.stack(reached).any(dim=0).nonzero()[:, 0] if reached else torch.zeros(0, dtype=torch.long)


def _parts(count: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, count, size)]


def _log_softmax(
    states: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, precision: torch.dtype
) -> Tensor:
    logits = torch.nn.functional.linear(states, weight, bias if bias is None else bias.to(weight.dtype))
    return torch.log_softmax(logits.to(precision) / temperature, dim=1)
