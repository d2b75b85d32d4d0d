"""The sensitivity of a ranking: extremes against all corners of the box, Gamma against its definition."""

from itertools import product

import numpy as np
import pytest

from worldline.ope.sensitivity import LARGEST, extreme, sensitivity

FIVE = np.full(10, 5)


@pytest.mark.parametrize("seed", range(5))
def test_the_extreme_is_that_of_all_corners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, returns = rng.exponential(size=8), rng.integers(0, 3, size=8).astype(float)
    factors = rng.uniform(1.0, 4.0, size=8)
    corners = [
        (factors ** np.array(signs) * weights) @ returns / (factors ** np.array(signs) @ weights)
        for signs in product([-1, 1], repeat=8)
    ]
    assert extreme(weights, returns, factors) == pytest.approx(min(corners))
    assert extreme(weights, returns, np.ones(8)) == pytest.approx(weights @ returns / weights.sum())


def test_gamma_is_where_the_two_could_meet() -> None:
    """Success 0 or 1, equal weights: a value v lies between v / (v + g^2 (1 - v)) and g^2 v / (g^2 v + 1 - v)."""
    returns = np.array([1.0] * 6 + [0.0] * 4)
    first = np.where(np.arange(10) < 6, np.log(0.8 / 0.6), np.log(0.2 / 0.4))  # value .8
    second = np.where(np.arange(10) < 6, np.log(0.5 / 0.6), np.log(0.5 / 0.4))  # value .5
    result = sensitivity("a", "b", (first, second), returns, FIVE)
    square = 2.0  # odds 4 and 1 meet at 4 / g^2 = 1 g^2
    assert result.gamma == pytest.approx(np.sqrt(square), rel=1e-3)
    assert result.nats_per_step == pytest.approx(np.log(np.sqrt(square)) / 5, rel=1e-2)
    assert sensitivity("b", "a", (second, first), returns, FIVE).gamma == 1.0


def test_a_ranking_that_no_factor_changes() -> None:
    returns = np.array([1.0, 1.0, 0.0, 0.0])
    sure = np.array([0.0, 0.0, -np.inf, -np.inf])
    never = np.array([-np.inf, -np.inf, 0.0, 0.0])
    assert sensitivity("a", "b", (sure, never), returns, np.ones(4, dtype=int)).gamma == pytest.approx(LARGEST)


def test_no_error_of_so_many_nats_a_step_reverses_a_ragged_log() -> None:
    """Successes of 40 steps, failures of one: an error in nats a step is an error of 40 in the weight of a success."""
    long = np.arange(1000) < 100
    returns, lengths = long.astype(float), np.where(long, 40, 1)
    first, second = np.log(np.where(long, 3.0, 0.78)), np.zeros(1000)
    result = sensitivity("a", "b", (first, second), returns, lengths)

    def value(weights: np.ndarray) -> float:
        return float(np.exp(weights) @ returns / np.exp(weights).sum())

    x = result.nats_per_step
    a, b = value(first - np.where(long, 1, -1) * x * lengths), value(second + np.where(long, 1, -1) * x * lengths)
    assert a > b, "the worst there is, of either"
    more = 1.01 * x
    a, b = value(first - np.where(long, 1, -1) * more * lengths), value(second + np.where(long, 1, -1) * more * lengths)
    assert a < b
    odds = np.log(3.0 / 0.78)  # odds of a success, of a over b: 41 x of either policy's close it
    assert x == pytest.approx(odds / (2 * 41), rel=1e-2)
