"""Agreement measures against scipy, brute force and worked examples."""

from itertools import combinations, permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from worldline.ope.agreement import (
    agreement,
    calibration_slope,
    coverage,
    pairwise_accuracy,
    permutation_p,
    regret,
    spearman,
)
from worldline.ope.intervals import Interval

small = st.lists(st.integers(0, 4), min_size=3, max_size=6)


@given(small, st.randoms(use_true_random=False))
def test_spearman_is_scipys_and_undefined_for_constants(x: list[int], random: Random) -> None:
    y = [random.randint(0, 4) for _ in x]
    ours = spearman(np.array(x, float), np.array(y, float))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert ours is None
    else:
        assert ours == pytest.approx(stats.spearmanr(x, y).statistic)


@given(small, st.integers(1, 6), st.integers(0, 99))
def test_regret_is_the_mean_over_all_orders_of_ties(x: list[int], k: int, seed: int) -> None:
    y = np.random.default_rng(seed).random(len(x))
    every = []
    for order in permutations(range(len(x))):
        ranked = sorted(order, key=lambda i: -x[i])  # stable: ties stay in the permuted order
        every.append(y.max() - max(y[i] for i in ranked[:k]))
    assert regret(np.array(x, float), y, k) == pytest.approx(np.mean(every), abs=1e-12)


@given(small, st.integers(0, 99))
def test_pairwise_accuracy_against_a_loop(x: list[int], seed: int) -> None:
    y = np.random.default_rng(seed).integers(0, 3, size=len(x)).astype(float)
    marks = [
        0.5 if x[i] == x[j] else float((x[i] < x[j]) == (y[i] < y[j]))
        for i, j in combinations(range(len(x)), 2)
        if y[i] != y[j]
    ]
    assert pairwise_accuracy(np.array(x, float), y) == (pytest.approx(np.mean(marks)) if marks else None)


def test_exact_permutation_p() -> None:
    five = np.arange(5.0)
    assert permutation_p(five, five) == pytest.approx(1 / 120)
    assert permutation_p(-five, five) == 1.0
    tied = np.array([0.0, 0.0, 1.0, 1.0])
    assert permutation_p(tied, tied) == pytest.approx(4 / 24)


def test_random_permutations_agree_with_enumeration() -> None:
    y = np.arange(9.0)
    assert permutation_p(y, y) == pytest.approx(1 / 20_001, abs=1e-4)
    half = np.array([4, 0, 5, 1, 6, 2, 7, 3, 8.0])
    assert permutation_p(half, y) == pytest.approx(stats.spearmanr(half, y, alternative="greater").pvalue, abs=0.02)


def test_slope_and_coverage() -> None:
    x = np.array([0.1, 0.2, 0.4])
    assert calibration_slope(x, 3 * x + 1) == pytest.approx(3.0)
    assert calibration_slope(np.ones(3), x) is None
    estimates = [Interval(0.5, 0.4, 0.6, 9), Interval(0.5, None, None, 1), Interval(0.5, 0.1, 0.2, 9)]
    assert coverage(estimates, np.array([0.41, 0.9, 0.3])) == 0.5


def test_a_truth_that_differs_by_rounding_is_covered() -> None:
    point = Interval(-0.02, -0.020000000000000007, -0.020000000000000004, 360)
    assert coverage([point], np.array([-0.019999999999999667])) == 1.0
    assert coverage([point], np.array([-0.0199])) == 0.0


def test_an_exploded_estimate_has_finite_errors() -> None:
    rows = [Interval(value, value, value, 9) for value in (0.1, 0.2, 1e260)]
    measured = agreement(rows, [0.1, 0.2, 0.3])
    assert measured["rmse"] == pytest.approx(1e260 / np.sqrt(3))
    assert np.isfinite([value for value in measured.values() if value is not None]).all()


def test_minus_epsilon_ranks_but_has_no_error() -> None:
    epsilons = [0.0, 0.2, 0.4, 0.6, 0.8]
    truth = [0.5, 0.45, 0.3, 0.1, 0.05]
    rows = [Interval(-eps, None, None, 0) for eps in epsilons]
    measured = agreement(rows, truth, in_units_of_value=False)
    assert measured["spearman"] == pytest.approx(1.0)
    assert measured["p"] == pytest.approx(1 / 120)
    assert (measured["regret@1"], measured["mae"], measured["coverage"]) == (0.0, None, None)


def test_spearman_interval_reflects_the_resamples() -> None:
    truth = [0.1, 0.2, 0.3, 0.4]
    rows = [Interval(t, t, t, 10) for t in truth]
    certain = agreement(rows, truth, np.tile(truth, (50, 1)))
    assert (certain["spearman_low"], certain["spearman_high"]) == (pytest.approx(1.0), pytest.approx(1.0))
    noise = np.random.default_rng(0).normal(size=(500, 4))
    unsure = agreement(rows, truth, noise)
    assert unsure["spearman_low"] is not None
    assert unsure["spearman_low"] < -0.5
