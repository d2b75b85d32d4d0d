"""Totals of a collection against what can be counted by hand."""

import math

import pytest

from worldline.tally import Tally
from worldline.types import Step, Trajectory


def episode(task: str, rewards: list[float], success: bool | None) -> Trajectory:
    steps = tuple(Step(observation="o", action="a", reward=reward, valid=reward >= 0) for reward in rewards)
    return Trajectory(id=f"{task}-{len(rewards)}", env="e", task_id=task, policy="p", steps=steps, success=success)


def test_totals_are_counted() -> None:
    tally = Tally()
    for one in (episode("x", [0.0, 1.0], True), episode("y", [-1.0], False), episode("z", [0.5], None)):
        tally.add(one)
    assert (tally.steps, tally.invalid, tally.unscored, tally.success_rate) == (4, 1, 4, 0.5)
    assert tally.mean_return().value == pytest.approx((1.0 - 1.0 + 0.5) / 3)


def test_the_interval_of_a_rate_is_wilsons() -> None:
    tally = Tally()
    for number in range(10):
        tally.add(episode(f"t{number}", [1.0], number < 8))
    success = tally.success()
    assert (success.low, success.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))


def test_a_rate_that_nobody_says_is_not_zero() -> None:
    tally = Tally()
    tally.add(episode("x", [1.0], None))
    assert math.isnan(tally.success_rate)
    assert tally.success().low is None


def test_returns_that_are_all_alike_are_not_certain() -> None:
    """Four tasks, all won: other tasks may be lost, as Wilson's interval of the success rate says."""
    for reward, highest in ((1.0, 1.0), (0.0, 1.0), (0.0, 5.0), (2.0, 5.0)):
        tally = Tally()
        for number in range(100):
            tally.add(episode(f"t{number % 4}", [reward], reward > 0))
        share = 1.959964**2 / (4 + 1.959964**2)  # Wilson's upper limit of 0 in 4
        mean = tally.mean_return(0.0, highest)
        assert mean.low == pytest.approx((1 - share) * reward)
        assert mean.high == pytest.approx((1 - share) * reward + share * highest)
        if highest == 1.0:
            success = tally.success()
            assert (mean.low, mean.high) == (pytest.approx(success.low), pytest.approx(success.high))


def test_returns_below_those_that_were_seen_are_as_possible_as_those_above() -> None:
    tally = Tally()
    for number in range(4):
        tally.add(episode(f"t{number}", [0.0], None))
    share = 1.959964**2 / (4 + 1.959964**2)
    both, above, neither = tally.mean_return(-1.0, 1.0), tally.mean_return(None, 1.0), tally.mean_return()
    assert (both.low, both.high) == (pytest.approx(-share), pytest.approx(share))
    assert (above.low, above.high) == (None, pytest.approx(share))
    assert (neither.value, neither.low, neither.high) == (0.0, None, None)


def test_the_interval_of_wins_and_losses_ends_at_these() -> None:
    """Two of three tasks: 2/3 +- 4.303 x 1/3 without an end."""
    tally = Tally()
    for number in range(3):
        for _ in range(4):
            tally.add(episode(f"t{number}", [float(number > 0)], number > 0))
    mean = tally.mean_return()
    assert (mean.value, mean.low, mean.high) == (pytest.approx(2 / 3), 0.0, 1.0)
    graded = Tally()
    for number, grade in enumerate((0.2, 0.7)):
        graded.add(episode(f"t{number}", [grade], False))
    assert graded.mean_return().high == pytest.approx(0.45 + 12.706 * 0.25, rel=1e-3), "two grades are no loss and win"
