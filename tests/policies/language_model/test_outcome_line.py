"""The outcome line: what is written is read back, and a text without one is all observation."""

import pytest

from worldline.policies.language_model.outcome_line import read_outcome, write_outcome


@pytest.mark.parametrize(("reward", "ended"), [(0.0, False), (1.0, True), (-0.1, False), (0.125, True), (1e-7, False)])
def test_an_outcome_is_read_as_it_was_written(reward: float, ended: bool) -> None:
    assert read_outcome(write_outcome("You see a > b.\nNothing [reward x].", reward, ended)) == (
        "You see a > b.\nNothing [reward x].",
        reward,
        ended,
    )
    assert read_outcome("You see nothing.") == ("You see nothing.", None, None)
    assert read_outcome("x\n[reward 1.2.3]") == ("x\n[reward 1.2.3]", None, None)
