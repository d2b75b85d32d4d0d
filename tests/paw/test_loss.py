"""The losses against scalar definitions, token by token, and their gradients against closed forms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from worldline.paw import loss

F = torch.float64
logprobs = st.floats(-6, -0.01)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=F)


@given(st.lists(st.tuples(logprobs, logprobs, st.floats(-3, 3), st.floats(0, 1)), min_size=1, max_size=8))
@settings(max_examples=100, deadline=None)
def test_policy_loss_token_by_token(tokens: list[tuple[float, float, float, float]]) -> None:
    total = clipped = 0.0
    for new, old, advantage, weight in tokens:
        ratio = math.exp(new - old)
        surrogate = min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
        clipped += weight * (surrogate < ratio * advantage)
        if advantage < 0:
            surrogate = max(surrogate, 3.0 * advantage)
        total -= weight * surrogate
    columns = [torch.tensor(column, dtype=F) for column in zip(*tokens, strict=True)]
    value, logs = loss.policy_loss(*columns)
    assert float(value) == pytest.approx(total, abs=1e-9)
    assert float(logs["clip_fraction"]) == pytest.approx(clipped, abs=1e-9)


def test_at_ratio_one_the_gradient_is_the_advantage_and_beyond_the_clips_there_is_none() -> None:
    new = tensor(-1.0, -1.0, -1.0, -1.0, -1.0).requires_grad_()
    old = tensor(-1.0, -1.0, -2.0, -2.0, -4.0)  # ratios 1, 1, e, e, e^3
    advantage = tensor(2.0, -2.0, 2.0, -2.0, -2.0)
    value, _ = loss.policy_loss(new, old, advantage, torch.ones(5, dtype=F))
    (gradient,) = torch.autograd.grad(value, new)
    torch.testing.assert_close(gradient, tensor(-2.0, 2.0, 0.0, 2.0 * math.e, 0.0))


@given(
    st.lists(st.tuples(logprobs, logprobs, st.floats(-3, 3), st.floats(0, 1)), min_size=1, max_size=8),
    st.floats(0.05, 0.9),
    st.floats(0.05, 0.9),
)
@settings(max_examples=60, deadline=None)
def test_clip_higher_token_by_token(tokens: list[tuple[float, float, float, float]], clip: float, high: float) -> None:
    total = clipped = 0.0
    for new, old, advantage, weight in tokens:
        ratio = math.exp(new - old)
        surrogate = min(ratio * advantage, min(max(ratio, 1 - clip), 1 + high) * advantage)
        clipped += surrogate < ratio * advantage
        total -= weight * (max(surrogate, 3.0 * advantage) if advantage < 0 else surrogate)
    columns = [torch.tensor(column, dtype=F) for column in zip(*tokens, strict=True)]
    value, logs = loss.policy_loss(*columns, clip, clip_high=high, share=torch.ones(len(tokens), dtype=F))
    assert float(value) == pytest.approx(total, abs=1e-9)
    assert float(logs["clip_fraction"]) == pytest.approx(clipped)


@given(st.lists(st.floats(-5, -0.01), min_size=2, max_size=6))
def test_k3_is_an_unbiased_estimate_of_the_divergence(scores: list[float]) -> None:
    policy = torch.log_softmax(torch.tensor(scores, dtype=F), 0)
    reference = torch.log_softmax(torch.tensor(scores[::-1], dtype=F), 0)
    exact = (policy.exp() * (policy - reference)).sum()
    held = float((torch.expm1(reference - policy) - (reference - policy)).max()) > loss.MOST_DIVERGENCE
    if not held:
        torch.testing.assert_close(loss.kl_loss(policy, reference, policy.exp()), exact)
    for one in range(len(scores)):
        assert loss.kl_loss(policy[one], reference[one], torch.ones((), dtype=F)) >= -1e-12


def test_a_token_that_the_policy_gave_up_cannot_be_the_whole_gradient() -> None:
    """r = e^15 would weigh three million; the estimate is held at 10, and has no slope there. Others keep r - 1."""
    policy = tensor(-16.0, -2.0).requires_grad_()
    reference = tensor(-1.0, -1.0)
    value = loss.kl_loss(policy, reference, torch.ones(2, dtype=F))
    (slope,) = torch.autograd.grad(value, policy)
    assert float(value.detach()) == pytest.approx(10 + math.e - 2)
    torch.testing.assert_close(slope, tensor(0.0, 1 - math.e))


@pytest.mark.parametrize("kind", ["cmae", "mae", "ce"])
@given(p=st.lists(st.floats(0.001, 0.999), min_size=1, max_size=10))
@settings(max_examples=30, deadline=None)
def test_world_model_loss_divides_by_all_observation_tokens(p: list[float], kind: str) -> None:
    token = {
        "cmae": lambda x: 1 - x if x <= 0.2 else 0.0,
        "mae": lambda x: 1 - x,
        "ce": lambda x: -math.log(x),
    }[kind]
    weight = torch.full((len(p),), 1 / len(p), dtype=F)
    value, logs = loss.world_model_loss(torch.tensor(p, dtype=F).log(), weight, kind, rho=0.2)
    near = sum(abs(x - 0.2) < 1e-9 for x in p)
    if not near:
        assert float(value) == pytest.approx(sum(map(token, p)) / len(p), abs=1e-9)
        assert int(logs["clipped"]) == sum(x > 0.2 for x in p)


@pytest.mark.parametrize("kind", ["cmae", "mae", "ce"])
def test_no_gradient_through_the_mask_and_the_closed_form_for_the_rest(kind: str) -> None:
    """d loss / d target logit: CE p - 1, MAE -p (1 - p), CMAE the same but 0 above rho, whatever the other logits."""
    logits = torch.randn(6, 9, dtype=F, generator=torch.Generator().manual_seed(3)).requires_grad_()
    logprob = torch.log_softmax(logits, dim=1)[:, 0]
    p = logprob.detach().exp()
    rho = float(p.median())
    value, _ = loss.world_model_loss(logprob, torch.ones(6, dtype=F), kind, rho)
    (gradient,) = torch.autograd.grad(value, logits)
    expected = {"ce": p - 1, "mae": -p * (1 - p), "cmae": torch.where(p <= rho, -p * (1 - p), 0.0)}[kind]
    torch.testing.assert_close(gradient[:, 0], expected)
    torch.testing.assert_close(loss.logit_gradient(logprob.detach(), kind, rho), expected.abs())
    if kind == "cmae":
        assert torch.equal(gradient[p > rho], torch.zeros_like(gradient[p > rho]))


@given(st.lists(st.tuples(*[st.floats(-3, 3)] * 3, st.floats(0, 1)), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_value_loss_is_the_worse_of_free_and_clipped(tokens: list[tuple[float, float, float, float]]) -> None:
    total = 0.0
    for value, old, target, weight in tokens:
        held = min(max(value, old - 0.5), old + 0.5)
        total += weight * 0.5 * max((value - target) ** 2, (held - target) ** 2)
    columns = [torch.tensor(column, dtype=F) for column in zip(*tokens, strict=True)]
    assert float(loss.value_loss(*columns)) == pytest.approx(total, abs=1e-9)
