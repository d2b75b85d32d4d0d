"""Sequences hold every row whole, and share wherever a row begins another of its episode."""

from hypothesis import given
from hypothesis import strategies as st

from worldline.paw.rows import StepRow
from worldline.paw.sequences import token_sequences


def growing(first: int, steps: int, rewritten: bool = False) -> list[StepRow]:
    """A transcript: prompt `first`; response 2; observation 3, 4; prompt ends 5; response 2; ..."""
    rows, prompt = [], (first,)
    for t in range(steps):
        rows.append(StepRow(0, t, prompt, (2,), (3, 4), (True, True), (False, False), False))
        prompt = (9, t) if rewritten else (*prompt, 2, 3, 4, 5)
    return rows


@given(st.lists(st.lists(st.integers(1, 2), min_size=2, max_size=5), min_size=1, max_size=12))
def test_sequences_are_the_rows_that_begin_no_other(sequences: list[list[int]]) -> None:
    rows = [StepRow(0, 0, tuple(s[:1]), tuple(s[1:]), (), (), (), False) for s in sequences]
    made = token_sequences(rows, range(len(rows)), None)
    whole = {tuple(s) for s in sequences}
    assert sorted(s.tokens for s in made) == sorted(
        s for s in whole if not any(o != s and o[: len(s)] == s for o in whole)
    )
    assert sorted(index for sequence in made for index in sequence.members) == list(range(len(rows)))
    for sequence in made:
        for index in sequence.members:
            assert sequence.tokens[: len(sequences[index])] == tuple(sequences[index])


def test_an_episode_whose_prompt_only_grows_is_one_sequence() -> None:
    rows = growing(1, 4) + growing(7, 2)
    made = token_sequences(rows, range(6), [True] * 6)
    assert [sequence.members for sequence in made] == [(5, 4), (3, 2, 1, 0)]
    assert made[1].tokens == (1, *(2, 3, 4, 5) * 3, 2, 3, 4)


def test_without_observations_the_last_row_is_not_longer_than_needed() -> None:
    (sequence,) = token_sequences(growing(1, 2), range(2), None)
    assert sequence.tokens == (1, 2, 3, 4, 5, 2)


def test_rewritten_prompts_share_nothing() -> None:
    assert len(token_sequences(growing(1, 3, rewritten=True), range(3), [True] * 3)) == 3


def test_a_continuation_that_the_next_prompt_does_not_repeat_keeps_its_row_apart() -> None:
    first, second = growing(1, 2)
    other = StepRow(0, 0, first.prompt, first.response, (8,), (True,), (False,), False)
    assert len(token_sequences([other, second], range(2), [True, True])) == 2
    assert len(token_sequences([other, second], range(2), [False, True])) == 1
