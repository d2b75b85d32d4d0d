"""How new a policy is to a log, counted by hand."""

import pytest

from worldline.evaluate.novelty import Novelty, newest
from worldline.types import Step, Trajectory


def episode(actions: str, policy: str = "logger") -> Trajectory:
    """One word an action: its letters are the skeleton, its digits the name."""
    steps = tuple(Step(observation="", action=action) for action in actions.split())
    return Trajectory(id=actions, env="e", task_id="t", goal="", policy=policy, steps=steps, final_observation="")


def skeleton(action: str) -> str:
    return action.rstrip("0123456789")


LOG = [episode("go1 take1 go2 put1"), episode("go1 go2 look")]


@pytest.mark.parametrize(
    ("actions", "new"),
    [
        ("go7 take7 go8 put7", 0),  # other names
        ("go1 look", 0),  # looked after going, as before
        (
            "take1 go1 put1",
            2,
        ),  # nobody took before going, nobody went after taking alone; what led to the put is the same
        ("go1 go2 go3", 1),  # a third time
        ("go1 sing go2", 2),  # sang; went after singing
    ],
)
def test_a_step_is_new_where_nobody_did_it_after_the_like_or_so_often(actions: str, new: int) -> None:
    assert Novelty(LOG, skeleton).share([episode(actions)]) == pytest.approx(new / len(actions.split()))


def test_of_no_steps_none_is_new() -> None:
    assert Novelty(LOG, skeleton).share([]) == 0


def test_the_newest_logger_is_the_one_that_the_other_fold_is_least_like() -> None:
    logs = [[episode("go1 take1")], [episode("go1 take2")], [episode("sing go1 take1")], [episode("sing go1")]]
    assert newest(logs[:2], 2, skeleton) == 0.0
    assert newest(logs[:3], 2, skeleton) == 1.0, "singing, going after it, taking after both: new to the second"
    assert newest(logs, 2, skeleton) == pytest.approx(1 / 3), "the fourth sings and goes, too: only the taking is new"
    assert newest(logs[:1], 2, skeleton) is None, "there is nobody to be new to"
