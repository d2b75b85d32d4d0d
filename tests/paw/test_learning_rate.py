"""The learning rate: by model, over the run, and the same after a resume."""

import math

import pytest
import torch

from worldline.paw.learning_rate import rate_defaults, rate_share, set_rates


def test_small_models_learn_fast_large_ones_as_in_the_paper_and_adapters_faster() -> None:
    assert [rate_defaults(n, lora=False).lr for n in (740_000, 135_000_000, 1_500_000_000)] == [1e-4, 3e-5, 1e-6]
    assert rate_defaults(1_500_000_000, lora=False).critic_lr == pytest.approx(1e-5)  # appendix A.1
    for size in (740_000, 135_000_000, 1_500_000_000):
        assert rate_defaults(size, lora=True).lr > rate_defaults(size, lora=False).lr


def test_warm_up_is_linear_and_then_the_rate_stays() -> None:
    assert [rate_share(u, 100, "constant", 3) for u in range(1, 6)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert [rate_share(u, 100) for u in (1, 100)] == [1.0, 1.0]


def test_linear_and_cosine_go_from_one_to_a_tenth() -> None:
    assert [rate_share(u, 5, "linear") for u in range(1, 6)] == pytest.approx([1, 0.775, 0.55, 0.325, 0.1])
    for update in range(4, 14):  # after a warm-up of three updates
        expected = 0.55 + 0.45 * math.cos(math.pi * (update - 4) / 9)
        assert rate_share(update, 13, "cosine", 3) == pytest.approx(expected)
    assert rate_share(20, 13, "cosine", 3) == pytest.approx(0.1)  # beyond the end
    assert rate_share(1, 1, "linear") == 1.0


def test_each_group_of_the_optimizer_keeps_its_own_full_rate() -> None:
    weights = [torch.zeros(2, requires_grad=True) for _ in range(2)]
    optimizer = torch.optim.AdamW([{"params": [weights[0]], "lr": 1e-3}, {"params": [weights[1]], "lr": 1e-2}])
    for share in (0.5, 0.1):
        set_rates(optimizer, (1e-3, 1e-2), share)
        assert [group["lr"] for group in optimizer.param_groups] == [1e-3 * share, 1e-2 * share]
