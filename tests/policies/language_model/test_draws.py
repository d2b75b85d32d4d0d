"""The draws of many rows and places at once are those of one row and place at a time."""

import numpy as np
import pytest

from worldline.policies.language_model.draws import token_draws
from worldline.types import derive_seed, uniform


@pytest.mark.parametrize("first", [0, 9, 95, 1000])
def test_each_draw_is_the_one_of_its_seed_and_place(first: int) -> None:
    seeds = [0, 1, 7, 2**62 + 3, *(derive_seed(3, at) for at in range(20))]
    one_by_one = [[uniform(seed, "token", place) for seed in seeds] for place in range(first, first + 12)]
    assert token_draws(seeds, first, 12).tolist() == one_by_one


def test_draws_lie_in_the_unit_interval_evenly() -> None:
    drawn = token_draws(range(2000), 0, 5)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert np.histogram(drawn, 10, (0, 1))[0] == pytest.approx(1000, abs=5 * 30)  # five standard deviations
