"""Trajectories for the store's tests: made by hand, and drawn at random."""

from collections.abc import Callable

import pytest

from worldline.types import Step, Trajectory


@pytest.fixture
def episode() -> Callable[..., Trajectory]:
    """Makes an episode whose steps follow from its number, so that a reader can tell whether it is whole."""

    def make(number: int, **fields: object) -> Trajectory:
        steps = tuple(
            Step(observation=f"room {k}", action=f"go {number} {k}", reward=float(k)) for k in range(number % 5)
        )
        defaults = {"id": f"e{number}", "env": "maze", "task_id": f"t{number % 3}", "policy": "walker", "seed": number}
        return Trajectory.model_validate({**defaults, "steps": steps, **fields})

    return make
