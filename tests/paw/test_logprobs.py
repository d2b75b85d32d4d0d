"""Chunked log-probabilities and entropies against the naive full softmax, values and gradients."""

import pytest
import torch

from worldline.paw.logprobs import token_stats

TOKENS, WIDTH, VOCABULARY = 23, 8, 31


def inputs(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(TOKENS, WIDTH), (VOCABULARY, WIDTH), (VOCABULARY,), (TOKENS,), (TOKENS,)]
    return [torch.randn(shape, generator=generator, dtype=dtype) for shape in shapes]


TARGETS = torch.arange(TOKENS) * 7 % VOCABULARY


@pytest.mark.parametrize("chunk", [1, 5, 23, 100, None])
@pytest.mark.parametrize("temperature", [1.0, 0.4])
@pytest.mark.parametrize("entropy", [True, False])
@pytest.mark.parametrize("dead", [0, 9, TOKENS])
def test_equals_the_naive_version_with_gradients(
    chunk: int | None, temperature: float, entropy: bool, dead: int
) -> None:
    hidden, head, bias, along_logprob, along_entropy = inputs()
    along_logprob[torch.randperm(TOKENS, generator=torch.Generator().manual_seed(1))[:dead]] = 0  # nothing asks there
    leaves = [t.clone().requires_grad_() for t in (hidden, head, bias)]
    logp = torch.log_softmax((leaves[0] @ leaves[1].t() + leaves[2]) / temperature, dim=1)
    naive_logprob = logp[torch.arange(TOKENS), TARGETS]
    naive_entropy = -(logp.exp() * logp).sum(dim=1)
    expected = torch.autograd.grad(
        (naive_logprob * along_logprob).sum() + entropy * (naive_entropy * along_entropy).sum(), leaves
    )

    mine = [t.clone().requires_grad_() for t in (hidden, head, bias)]
    stats = token_stats(mine[0], mine[1], TARGETS, bias=mine[2], temperature=temperature, entropy=entropy, chunk=chunk)
    total = (stats.logprob * along_logprob).sum()
    torch.testing.assert_close(stats.logprob, naive_logprob)
    if entropy:
        assert stats.entropy is not None
        torch.testing.assert_close(stats.entropy, naive_entropy)
        total = total + (stats.entropy * along_entropy).sum()
    else:
        assert stats.entropy is None
    for actual, wanted in zip(torch.autograd.grad(total, mine), expected, strict=True):
        torch.testing.assert_close(actual, wanted)


def test_a_frozen_head_gets_no_gradient_and_no_tokens_are_fine() -> None:
    hidden, head, *_ = inputs(torch.float32)
    hidden.requires_grad_()
    token_stats(hidden, head, TARGETS).logprob.sum().backward()
    assert hidden.grad is not None
    assert head.grad is None
    none = token_stats(hidden[:0], head, TARGETS[:0], entropy=True)
    assert none.logprob.shape == (0,)
    none.logprob.sum().backward()


def test_autocast_runs_in_half_precision_and_returns_float32() -> None:
    hidden, head, *_ = inputs(torch.float32)
    hidden.requires_grad_()
    head.requires_grad_()
    exact = token_stats(hidden, head, TARGETS)
    with torch.autocast("cpu", torch.bfloat16):
        stats = token_stats(hidden, head, TARGETS)
    assert stats.logprob.dtype == torch.float32
    torch.testing.assert_close(stats.logprob, exact.logprob, rtol=0.05, atol=0.05)
    assert not torch.equal(stats.logprob, exact.logprob)
    stats.logprob.sum().backward()
    assert head.grad is not None
    assert head.grad.dtype == torch.float32
