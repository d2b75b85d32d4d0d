"""Rows hold the policy's own tokens, then what the world answered."""

import pytest

from worldline.paw.rows import Observed, to_rows
from worldline.types import InputError, Step, Trajectory


def encode(text: str) -> Observed:
    return Observed(tuple(map(ord, text)), tuple(letter == "!" for letter in text))


def trajectory(observations: str, final: str = "", terminated: bool = True) -> Trajectory:
    """One step per letter: prompt (t), response (100 + t, 200 + t)."""
    steps = tuple(
        Step(observation=letter, action="go", prompt_ids=(t + 1,), token_ids=(100 + t, 200 + t))
        for t, letter in enumerate(observations)
    )
    return Trajectory(
        id="e", env="toy", task_id="1", policy="p", steps=steps, final_observation=final, terminated=terminated
    )


def test_the_next_observation_follows_the_response() -> None:
    rows = to_rows([trajectory("abc", "dd"), trajectory("x", "")], encode)
    assert [(row.trajectory, row.step) for row in rows] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert [row.continuation for row in rows] == [(98,), (99,), (100, 100), ()]
    assert rows[1].prompt == (2,)
    assert rows[1].response == (101, 201)
    assert [row.targets for row in rows] == [1, 1, 2, 0]
    assert to_rows([trajectory("a", "b!")], encode)[0].noisy == (False, True)


def test_an_episode_that_ends_can_keep_its_last_answer_to_itself() -> None:
    ended, cut_short = trajectory("ab", "z"), trajectory("ab", "z", terminated=False)
    assert to_rows([ended], encode, last_answer=False)[1].targets == 0
    assert to_rows([cut_short], encode, last_answer=False)[1].targets == 1


def test_a_horizon_goes_on_along_the_logged_actions_which_are_no_targets() -> None:
    rows = to_rows([trajectory("abc", "d")], encode, horizon=3)
    assert rows[0].continuation == (98, 101, 201, 99, 102, 202, 100)
    assert rows[0].observed == (True, False, False, True, False, False, True)
    assert rows[1].continuation == (99, 102, 202, 100)
    assert rows[2].continuation == (100,)
    empty_end = to_rows([trajectory("a", "")], encode, horizon=3)
    assert empty_end[0].continuation == ()


def test_skipped_tokens_are_context_and_no_targets() -> None:
    def skipping(text: str) -> Observed:
        return Observed(encode(text).ids, encode(text).noisy, frozenset(i for i, c in enumerate(text) if c == "#"))

    first, second = to_rows([trajectory("ab", "#c#")], skipping)
    assert (first.continuation, first.observed) == ((98,), (True,))
    assert (second.continuation, second.observed, second.targets) == (tuple(b"#c#"), (False, True, False), 1)
    assert to_rows([trajectory("a", "##")], skipping)[0].continuation == ()  # nothing to learn, nothing to read


def test_budgets_cut_the_continuation_and_say_so() -> None:
    (row,) = to_rows([trajectory("a", "bcdef")], encode, max_continuation=3)
    assert (row.continuation, row.cut) == ((98, 99, 100), True)
    (row,) = to_rows([trajectory("a", "bcdef")], encode, max_length=5)
    assert (row.continuation, row.cut) == ((98, 99), True)
    (row,) = to_rows([trajectory("a", "bcdef")], encode, max_length=2)
    assert (row.continuation, row.targets, row.cut) == ((), 0, True)
    (row,) = to_rows([trajectory("a", "bcdef")], encode)
    assert not row.cut


def test_a_log_without_tokens_is_refused_by_name() -> None:
    bare = trajectory("a").model_copy(update={"steps": (Step(observation="a", action="b"),)})
    with pytest.raises(InputError, match="episode e, step 0"):
        to_rows([bare], encode)


def test_rows_that_teach_the_same_have_the_same_transition() -> None:
    one, two = to_rows([trajectory("a", "b")], encode), to_rows([trajectory("q", "b")], encode)
    assert one[0].transition == two[0].transition
    assert to_rows([trajectory("a", "c")], encode)[0].transition != one[0].transition
