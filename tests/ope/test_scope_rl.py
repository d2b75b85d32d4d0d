"""Agreement with SCOPE-RL 0.2.1 on an equal-length log; how its figures were made: scope_rl_reference.py."""

import json

import numpy as np
import pytest
from scope_rl_reference import EPISODES, GAMMA, REFERENCE, STEPS, inputs

from worldline.ope import estimators as e
from worldline.ope.log import RaggedLog
from worldline.ope.weights import cumulative


def test_equal_length_log_agrees_with_scope_rl() -> None:
    data = inputs()
    rows, action = np.arange(EPISODES * STEPS), data["action"]
    log = RaggedLog(
        rewards=data["reward"],
        behaviour=np.log(data["behaviour"][rows, action]),
        offsets=np.arange(EPISODES + 1) * STEPS,
        tasks=np.arange(EPISODES),
        policies=np.zeros(EPISODES, dtype=np.int64),
        terminated=np.ones(EPISODES, dtype=bool),
    )
    weights = cumulative(np.log(data["target"][rows, action]) - log.behaviour, log.offsets)
    value = e.Value(data["q"][rows, action], (data["q"] * data["target"]).sum(axis=1))
    ours = {
        "is": e.importance(log, GAMMA, weights),
        "wis": e.weighted_importance(log, GAMMA, weights),
        "pdis": e.per_decision(log, GAMMA, weights),
        "pdwis": e.weighted_per_decision(log, GAMMA, weights),
        "dr": e.doubly_robust(log, GAMMA, weights, value),
        "wdr": e.weighted_doubly_robust(log, GAMMA, weights, value),
    }
    theirs = json.loads(REFERENCE.read_text())
    for name, values in ours.items():
        assert values.mean() == pytest.approx(theirs[name], rel=1e-8), name
