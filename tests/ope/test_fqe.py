"""FQE with a network: near the exact value on a small world, for a stochastic target, and the same every time."""

import numpy as np
import pytest
from tabular_world import TabularWorld

from worldline.ope.estimators import start_value
from worldline.ope.features import Features
from worldline.ope.fqe import FQEConfig, fit


def test_network_fqe_finds_the_target_value() -> None:
    world = TabularWorld.random(5, states=4, tasks=20, horizon=4)
    behaviour, target = world.policy(1), world.mixed(world.policy(3, temperature=0.3), 0.2)
    log = world.play(behaviour, 500, seed=0)
    states = np.zeros((len(log.time), 8))
    states[np.arange(len(states)), log.state] = 1.0
    states[np.arange(len(states)), 4 + log.time] = 1.0
    features = Features(states, np.eye(4, 8), log.action)
    choices = log.target(target).choices
    assert choices is not None
    config = FQEConfig(hidden=64, epochs=12, learning_rate=3e-3)
    value = fit(log.ragged, 1.0, features, choices, config)
    exact, naive = world.value(target, 1.0), log.ragged.returns(1.0).mean()
    estimated = start_value(log.ragged, 1.0, value).mean()
    assert abs(exact - naive) > 0.3
    assert estimated == pytest.approx(exact, abs=0.15)
    again = fit(log.ragged, 1.0, features, choices, config)
    np.testing.assert_array_equal(value.v, again.v)
