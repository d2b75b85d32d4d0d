"""A trajectory's own sums and lists."""

import pytest
from pydantic import ValidationError

from worldline.types import Step, Trajectory


def episode(*observations: str, final: str = "end") -> Trajectory:
    steps = tuple(Step(observation=text, action="go", reward=0.25) for text in observations)
    return Trajectory(id="e", env="toy", task_id="1", policy="p", steps=steps, final_observation=final)


def test_the_next_observation_of_the_last_step_is_the_final_one() -> None:
    assert episode("a", "b", "c").next_observations == ("b", "c", "end")
    assert episode("a").next_observations == ("end",)


def test_return_and_length() -> None:
    assert episode("a", "b").episode_return == 0.5
    assert len(episode("a", "b")) == 2


def test_a_trajectory_is_frozen_and_takes_no_unknown_field() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        episode("a").goal = "other"  # type: ignore[misc]  # frozen: that is tested
    with pytest.raises(ValidationError, match="extra"):
        Step(observation="a", action="b", prize=1.0)  # type: ignore[call-arg]  # no such field: that is tested
