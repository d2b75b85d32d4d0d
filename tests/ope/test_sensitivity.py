"""The sensitivity of a ranking: extremes against all corners of the box, Gamma against its definition."""

from itertools import product

import numpy as np
import pytest

from worldline.ope.sensitivity import LARGEST, extreme, sensitivity


@pytest.mark.parametrize("seed", range(5))
def test_the_extreme_is_that_of_all_corners(seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights, returns = rng.exponential(size=8), rng.integers(0, 3, size=8).astype(float)
    corners = [
        (np.array(corner) * weights) @ returns / (np.array(corner) @ weights)
        for corner in product([0.4, 2.5], repeat=8)
    ]
    assert extreme(weights, returns, 2.5) == pytest.approx(min(corners))
    assert extreme(weights, returns, 1.0) == pytest.approx(weights @ returns / weights.sum())


def test_gamma_is_where_the_two_could_meet() -> None:
    """Success 0 or 1, equal weights: a value v lies between v / (v + g^2 (1 - v)) and g^2 v / (g^2 v + 1 - v)."""
    returns = np.array([1.0] * 6 + [0.0] * 4)
    first = np.where(np.arange(10) < 6, np.log(0.8 / 0.6), np.log(0.2 / 0.4))  # value .8
    second = np.where(np.arange(10) < 6, np.log(0.5 / 0.6), np.log(0.5 / 0.4))  # value .5
    result = sensitivity("a", "b", (first, second), returns, 5.0)
    square = 2.0  # odds 4 and 1 meet at 4 / g^2 = 1 g^2
    assert result.gamma == pytest.approx(np.sqrt(square), rel=1e-3)
    assert result.nats_per_step == pytest.approx(np.log(np.sqrt(square)) / 5, rel=1e-2)
    assert sensitivity("b", "a", (second, first), returns, 5.0).gamma == 1.0


def test_a_ranking_that_no_factor_changes() -> None:
    returns = np.array([1.0, 1.0, 0.0, 0.0])
    sure = np.array([0.0, 0.0, -np.inf, -np.inf])
    never = np.array([-np.inf, -np.inf, 0.0, 0.0])
    assert sensitivity("a", "b", (sure, never), returns, 1.0).gamma == pytest.approx(LARGEST)
