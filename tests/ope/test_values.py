"""Returns-to-go against a loop; cross-fitting sees other tasks only; test_estimators has the exact values."""

from dataclasses import replace

import numpy as np
from four_loggers import POLICIES, scored
from tabular_world import TabularLog, TabularWorld

from worldline.ope.estimation import EstimatorInput, estimate
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


def test_a_cross_fitted_value_knows_nothing_of_its_own_task(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    """Other rewards in one task: its own values stay, those of other tasks move; the plain fit's own move too."""
    log = evidence.log
    aimed = evidence.aimed(scored(logs, POLICIES[0]))
    of_task = np.repeat(log.tasks == 3, log.lengths)
    other = replace(aimed, log=replace(log, rewards=np.where(of_task, log.rewards + 5.0, log.rewards)))
    np.testing.assert_array_equal(aimed.cross_fitted.q[of_task], other.cross_fitted.q[of_task])
    assert np.abs(aimed.cross_fitted.q[~of_task] - other.cross_fitted.q[~of_task]).max() > 0.01
    assert np.abs(aimed.lfqe.q[of_task] - other.lfqe.q[of_task]).max() > 0.01


def test_cross_fitting_needs_several_tasks(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    few = evidence.aimed(scored(logs, POLICIES[0])).take(np.flatnonzero(evidence.log.tasks < 3))
    assert "needs 5 tasks" in estimate(few, ["dr-cf"]).refused["dr-cf"]
