"""The error of a world model's value, against closed forms."""

import numpy as np
import pytest

from worldline.ope.world_model_error import world_model_error

RETURNS = np.array([0.0, 1.0, 0.0, 1.0])
"""Their standard deviation is a half."""


@pytest.mark.parametrize(("possible", "error"), [(1.0, 0.1), (0.5, 0.3), (0.0, 0.5)])
def test_what_cannot_be_said_may_end_like_anything_in_the_log(possible: float, error: float) -> None:
    assert world_model_error(RETURNS, possible, []) == pytest.approx(error)
    assert world_model_error(3 * RETURNS + 7, possible, []) == pytest.approx(3 * error), "in units of the returns"


def test_errors_that_were_measured_add_to_it_those_of_refits_half() -> None:
    measured = np.sqrt((0.3**2 + 0.1**2 + 0.2**2) / 3)
    assert world_model_error(RETURNS, 1.0, [0.3, -0.1], [0.4]) == pytest.approx(np.hypot(0.1, measured))
    assert world_model_error(np.zeros(4), 0.0, [0.3]) == pytest.approx(0.3)
