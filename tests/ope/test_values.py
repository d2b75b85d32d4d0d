"""Weighted returns-to-go against a loop; the fitted values are tested in test_estimators against exact ones."""

import numpy as np
from tabular_world import TabularWorld

from worldline.ope.values import returns_to_go
from worldline.ope.weights import log_ratios


def test_returns_to_go_against_a_loop() -> None:
    world = TabularWorld.random(1)
    log = world.play(world.policy(1), 30, seed=0)
    flat, ratios = log.ragged, log_ratios(log.ragged, log.target(world.policy(2)))
    expected = np.zeros(flat.steps)
    for episode in range(flat.episodes):
        tail = 0.0
        for row in reversed(range(flat.offsets[episode], flat.offsets[episode + 1])):
            tail = flat.rewards[row] + (0.9 * np.exp(ratios[row + 1]) * tail if row < flat.ends[episode] else 0)
            expected[row] = tail
    np.testing.assert_allclose(returns_to_go(flat, 0.9, ratios), expected, atol=1e-10)
