"""MAGIC's blend on the simplex, and how uncertain its model is; its two ends are tested in test_estimators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldline.bench.small_mdp import KINDS
from worldline.evaluate.judgement import IntervalSettings, judged
from worldline.ope.estimation import ESTIMATORS, EstimatorInput
from worldline.ope.estimators import Value
from worldline.ope.log import RaggedLog
from worldline.ope.magic import partial_returns, simplex_minimum


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_simplex_minimum_beats_every_other_blend(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    best = simplex_minimum(root.T @ root)
    assert best.sum() == pytest.approx(1)
    assert (best >= 0).all()
    others = rng.dirichlet(np.full(size, 0.3), size=200)
    assert (np.square(root @ best).sum() <= np.square(others @ root.T).sum(axis=1) + 1e-9).all()


def test_a_model_is_as_uncertain_as_the_rewards_that_it_was_fitted_on() -> None:
    """One state, one action, one step: the model's value is the mean reward, and errs as a mean of rewards does."""
    rewards = np.random.default_rng(0).normal(size=50)
    log = RaggedLog(
        rewards, np.zeros(50), np.arange(51), np.arange(50), np.zeros(50, dtype=np.int64), np.ones(50, dtype=np.bool_)
    )
    fitted = np.full(50, rewards.mean())
    by_model, by_weights = partial_returns(log, 1.0, np.zeros(50), Value(fitted, fitted)).T
    np.testing.assert_allclose(by_model, rewards)
    np.testing.assert_allclose(by_weights, rewards)


def test_the_model_keeps_its_mean_at_every_switch() -> None:
    """Two steps, weights of 1: the blend that switches after j steps has the mean of j rewards, then V."""
    rng = np.random.default_rng(1)
    rewards, q, v = rng.normal(size=(3, 20))
    log = RaggedLog(
        rewards, np.zeros(20), np.arange(0, 21, 2), np.arange(10), np.zeros(10, dtype=np.int64),
        np.ones(10, dtype=np.bool_),
    )  # packed lines read better  # fmt: skip
    means = partial_returns(log, 0.5, np.zeros(20), Value(q, v)).mean(axis=0)
    first = rewards[::2] - q[::2] + v[::2]
    second = 0.5 * (rewards[1::2] - q[1::2] + v[1::2])
    exact = [v[::2].mean(), (first + 0.5 * v[1::2]).mean(), (first + second).mean()]
    np.testing.assert_allclose(means, exact)


def test_the_expected_error_is_the_error_that_is_made() -> None:
    """On 100 logs of 100 episodes; without the scatter of the fit the error was 1.8 times what was stated."""
    made, stated = [], []
    for seed in range(100):
        situation = KINDS["good"](np.random.default_rng([8, seed]), 100)
        name, policy = next(iter(situation.candidates.items()))
        evidence = EstimatorInput(situation.log, 1.0, situation.played.target(policy), situation.played.features)
        (estimate,) = judged(evidence, ["magic"], ESTIMATORS, IntervalSettings(replicates=100)).estimates.values()
        if estimate.flag is None:
            made.append((estimate.value or 0.0) - situation.truth[name])
            stated.append(estimate.error or 0.0)
    ratio = np.sqrt(np.mean(np.square(made)) / np.mean(np.square(stated)))
    assert len(made) > 60
    assert 0.65 <= ratio <= 1.25
