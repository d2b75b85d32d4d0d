"""Truncated importance sampling against enumeration, and against the loss that it stands for."""

import math

import pytest
import torch

from worldline.paw.loss import policy_loss
from worldline.paw.mismatch import correct, oldest

SAMPLER = torch.tensor([0.5, 0.3, 0.2])
LEARNER = torch.tensor([0.2, 0.3, 0.5])


def test_without_a_cap_that_binds_the_sampler_s_mean_is_the_learner_s() -> None:
    values = torch.tensor([3.0, -1.0, 7.0])
    weights = correct(SAMPLER.log(), LEARNER.log(), cap=100.0).weights
    assert float((SAMPLER * weights * values).sum()) == pytest.approx(float((LEARNER * values).sum()))


def test_the_cap_truncates_and_zero_corrects_nothing() -> None:
    capped = correct(SAMPLER.log(), LEARNER.log(), cap=2.0)
    assert capped.weights.tolist() == pytest.approx([0.4, 1.0, 2.0])
    assert capped.metrics["mismatch_capped"] == pytest.approx(1 / 3)
    assert correct(SAMPLER.log(), LEARNER.log(), cap=0.0).weights.tolist() == [1.0, 1.0, 1.0]


def test_metrics_against_their_definitions() -> None:
    """The k3 estimate is unbiased: its mean over the sampler's draws is the divergence itself."""
    counts = [5, 3, 2]  # each token as often as the sampler draws it
    drawn = [token for token, count in enumerate(counts) for _ in range(count)]
    metrics = correct(SAMPLER.log()[drawn], LEARNER.log()[drawn], cap=2.0).metrics
    apart = [abs(math.log(LEARNER[token] / SAMPLER[token])) for token in drawn]
    divergence = sum(float(p) * math.log(p / q) for p, q in zip(SAMPLER, LEARNER, strict=True))
    assert metrics["mismatch_mean"] == pytest.approx(sum(apart) / 10)
    assert metrics["mismatch_max"] == pytest.approx(max(apart))
    assert metrics["mismatch_kl"] == pytest.approx(divergence, rel=1e-5)


def test_equal_policies_are_left_alone() -> None:
    correction = correct(SAMPLER.log(), SAMPLER.log(), cap=2.0)
    assert correction.weights.tolist() == [1.0, 1.0, 1.0]
    assert set(correction.metrics.values()) == {0.0}


def test_weighing_advantages_is_weighing_the_loss() -> None:
    """Also where ratios are clipped, once or twice."""
    generator = torch.Generator().manual_seed(0)
    logprob, old, advantage = (torch.randn(200, generator=generator) for _ in range(3))
    weight = torch.rand(200, generator=generator) * 2
    each = torch.tensor([float(policy_loss(*token, torch.ones(1))[0]) for token in _tokens(logprob, old, advantage)])
    weighed = policy_loss(logprob, old, advantage * weight, torch.ones(200))[0]
    assert float(weighed) == pytest.approx(float((each * weight).sum()), rel=1e-5)


def _tokens(*columns: torch.Tensor) -> list[tuple[torch.Tensor, ...]]:
    return [tuple(column[i : i + 1] for column in columns) for i in range(len(columns[0]))]


def test_the_oldest_policy() -> None:
    assert oldest(["update-000007", "update-000004", "update-000007"], 7) == 3
