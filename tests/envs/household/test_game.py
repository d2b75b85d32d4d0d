"""Sets of numbers as bits."""

from worldline.envs.household.game import mask, members


def test_sets_of_numbers() -> None:
    assert list(members(mask([5, 0, 63, 200]))) == [0, 5, 63, 200]
