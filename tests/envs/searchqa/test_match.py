"""Exact match and F1 against values worked out by hand, and their invariances."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldline.envs.searchqa.match import exact_match, f1, normalise


def test_normalisation_drops_case_punctuation_and_articles() -> None:
    assert normalise("  The  Eiffel-Tower, a view!") == "eiffeltower view"
    assert normalise("Theatre") == "theatre"


@pytest.mark.parametrize(
    ("answer", "golds", "matches", "score"),
    [
        ("the Seine", ["Seine"], True, 1.0),
        ("Ada Hale", ["Ada Lowe"], False, 0.5),
        ("river Seine in Paris", ["Seine"], False, 2 / 5),
        ("12,480", ["12480"], True, 1.0),
        ("Oslo", ["Bergen", "Oslo"], True, 1.0),
        ("nothing", ["Oslo"], False, 0.0),
        ("to be to be", ["to be"], False, 2 / 3),
        ("the", ["a"], True, 0.0),
        ("Oslo", [], False, 0.0),
    ],
)
def test_scores_by_hand(answer: str, golds: list[str], matches: bool, score: float) -> None:
    assert exact_match(answer, golds) is matches
    assert f1(answer, golds) == pytest.approx(score)


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_f1_is_symmetric_bounded_and_one_on_a_match(one: str, other: str) -> None:
    assert f1(one, [other]) == f1(other, [one])
    assert 0 <= f1(one, [other]) <= 1
    if exact_match(one, [other]) and normalise(one):
        assert f1(one, [other]) == 1
