"""Success of an imagined episode that is cut: what the log says of its own, never a failure that nobody saw."""

import pytest
from workdays import workdays
from written_logs import Played, episode

from worldline.adwm.logged_success import NEAREST, LoggedSuccess
from worldline.types import Trajectory


def cut(paid: float, success: bool | None) -> Trajectory:
    played = episode("e", "start", [Played("go", "on", paid)], ended=False)
    return played.model_copy(update={"success": success})


ENDED = episode("lost", "start", [Played("go", "over")], success=False)


@pytest.mark.parametrize("success", [True, False])
def test_where_all_cut_episodes_agree_so_does_an_imagined_one(success: bool) -> None:
    logged = LoggedSuccess([ENDED, *workdays(success=success)])
    assert {logged.of_cut(collected, draw) for collected in (-9.0, 3.0) for draw in (0.0, 0.99)} == {success}
    assert logged.unended is (None if success else False)


def test_where_the_return_decides_it_it_is_read_from_the_return() -> None:
    logged = LoggedSuccess([cut(paid / 10, paid > 30) for paid in range(60)])
    draws = [at / 50 for at in range(50)]
    assert not any(logged.of_cut(1.0, draw) for draw in draws)
    assert all(logged.of_cut(5.0, draw) for draw in draws)
    assert {logged.of_cut(3.05, draw) for draw in draws} == {True, False}, "at the threshold both"


def test_where_returns_are_equal_it_is_drawn_by_the_share_of_all_of_them() -> None:
    count = 5 * NEAREST
    logged = LoggedSuccess([cut(1.0, at % 4 == 0) for at in range(count)])
    assert sum(bool(logged.of_cut(1.0, at / count)) for at in range(count)) == count / 4


def test_what_the_log_does_not_judge_is_unknown() -> None:
    unjudged = LoggedSuccess([cut(1.0, None), ENDED.model_copy(update={"success": None})])
    assert (unjudged.of_ended(success=False), unjudged.of_cut(1.0, 0.5), unjudged.unended) == (None, None, None)
    partly = LoggedSuccess([cut(1.0, None), ENDED])
    assert (partly.of_ended(success=True), partly.of_cut(1.0, 0.5)) == (True, None)


def test_a_log_without_cut_episodes_has_success_at_an_end_alone() -> None:
    logged = LoggedSuccess([ENDED])
    assert (logged.of_ended(success=True), logged.of_cut(1.0, 0.5), logged.unended) == (True, False, False)
