"""Four logging policies of a small tabular world, and any policy's log-probabilities on what they logged."""

import numpy as np
from tabular_world import TabularLog, TabularWorld

from worldline.ope.log import Choices, TargetLog

WORLD = TabularWorld.random(2, states=4, tasks=30, horizon=4)
POLICIES = [WORLD.policy(k, temperature=0.7) for k in (1, 2, 3, 4)]


def scored(logs: list[TabularLog], policy: np.ndarray) -> TargetLog:
    """One policy's log-probs on all four logs."""
    parts = [log.target(policy) for log in logs]
    choices = [part.choices for part in parts if part.choices is not None]
    sizes = np.concatenate([np.diff(c.offsets) for c in choices])
    return TargetLog(
        np.concatenate([part.logprobs for part in parts]),
        Choices(
            np.concatenate([c.logprobs for c in choices]),
            np.concatenate([c.actions for c in choices]),
            np.concatenate([[0], np.cumsum(sizes)]),
        ),
    )
