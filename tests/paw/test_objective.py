"""The per-row weights against eq. 11 spelled out as a mean over groups of means."""

import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from worldline.paw import objective


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.floats(0, 5)), max_size=25),
    lambdas=st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_weights_make_a_sum_of_the_mean_of_means(rows: list[tuple[int, bool, float]], lambdas: list[float]) -> None:
    total = 0.0
    for group in range(4):
        chosen = [loss for g, selected, loss in rows if g == group and selected]
        total += lambdas[group] * statistics.fmean(chosen) / 4 if chosen else 0.0
    weights = objective.world_weights(
        torch.tensor([s for _, s, _ in rows], dtype=torch.bool),
        torch.tensor([g for g, _, _ in rows], dtype=torch.long),
        torch.tensor(lambdas, dtype=torch.float64),
    )
    losses = torch.tensor([loss for _, _, loss in rows], dtype=torch.float64)
    assert float((weights * losses).sum()) == pytest.approx(total, abs=1e-9)


def test_lambda_is_one_minus_the_mean_return_clipped() -> None:
    returns = torch.tensor([10.0, 0.0, 0.0, 0.0, 10.0, 10.0, 30.0, -20.0])
    groups = torch.tensor([0, 0, 1, 1, 2, 2, 3, 4])
    assert objective.adaptive_coefficients(returns, groups, 10.0).tolist() == [0.5, 1.0, 0.0, 0.0, 1.0]


def test_only_groups_that_all_fail_alike_count_as_failed() -> None:
    """All 0: 1. Won and lost, all won, 3 and 4 of 10: 0. All 4 of 10: 1. One episode, lost or below 0: 1."""
    returns = torch.tensor([0.0, 10.0, 0.0, 10.0, 4.0, 3.0, 0.0, 10.0, 4.0, 4.0, -2.0], dtype=torch.float64)
    groups = torch.tensor([0, 1, 0, 2, 4, 3, 1, 2, 3, 4, 5])
    assert objective.failed_coefficients(returns, groups, 10.0).tolist() == [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    one = objective.failed_coefficients(torch.tensor([10.0]), torch.tensor([0]), 10.0)
    assert one.tolist() == [0.0]


def test_echo_weighs_every_observation_token_alike() -> None:
    """Spread over its row's tokens, the weight of a token is c / (all tokens): a token mean times c."""
    targets = torch.tensor([3, 0, 5])
    weights = objective.echo_weights(targets, 0.1)
    token = [float(weight) / int(count) for weight, count in zip(weights, targets, strict=True) if count]
    assert token == pytest.approx([0.1 / 8, 0.1 / 8])
    assert float(weights.sum()) == pytest.approx(0.1)
    assert objective.echo_weights(torch.tensor([0, 0]), 0.1).tolist() == [0, 0]


def test_schedule_is_linear_and_ends_at_the_last_update() -> None:
    values = [objective.scheduled_coefficient(1.0, 0.0, u, 5) for u in range(5)]
    assert values == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert objective.scheduled_coefficient(1.0, 0.0, 0, 1) == 1.0
