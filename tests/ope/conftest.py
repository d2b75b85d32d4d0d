"""Logs of four policies; property tests here must not depend on how busy the machine is."""

import numpy as np
import pytest
from four_loggers import POLICIES, WORLD
from hypothesis import settings
from tabular_world import TabularLog

from worldline.ope.estimation import EstimatorInput
from worldline.ope.features import Features
from worldline.ope.log import RaggedLog

settings.register_profile("unhurried", deadline=None, max_examples=60)
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def logs() -> list[TabularLog]:
    return [WORLD.play(policy, 300, seed=k) for k, policy in enumerate(POLICIES)]


@pytest.fixture(scope="session")
def evidence(logs: list[TabularLog]) -> EstimatorInput:
    parts = [log.ragged for log in logs]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([p.lengths for p in parts]))])
    log = RaggedLog(
        rewards=np.concatenate([p.rewards for p in parts]),
        behaviour=np.concatenate([p.behaviour for p in parts]),
        offsets=offsets,
        tasks=np.concatenate([p.tasks for p in parts]),
        policies=np.repeat(np.arange(4), 300),
        terminated=np.concatenate([p.terminated for p in parts]),
        policy_names=("a", "b", "c", "d"),
    )
    state, time = (np.concatenate([getattr(x, name) for x in logs]) for name in ("state", "time"))
    rows = np.zeros((log.steps, 64))
    rows[np.arange(log.steps), (time * 4 + state) * 4] = 1.0
    features = Features(rows, np.eye(4, 64), np.concatenate([x.action for x in logs]))
    return EstimatorInput(log, 1.0, text=lambda: features)
