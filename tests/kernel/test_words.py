import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldline.kernel import words
from worldline.kernel.words import at_least, derive_vocabulary, stable_hash, vocabulary

TEXTS = st.text("aZ19_ .,[]\n\x00\u00e9\u3010\u3000\u0130\u212a", max_size=30)


@given(TEXTS)
def test_a_vocabulary_has_the_words_and_the_marks(text: str) -> None:
    assert vocabulary(text) == frozenset(words.words(text))


def test_more_often_is_all_that_less_often_is_and_more() -> None:
    assert list(at_least({"knock": 2, "wait": 5}, 3)) == ["knock 0", "knock 1", "wait 0", "wait 1", "wait 2"]


def test_a_vocabulary_may_be_derived_from_that_of_another_text() -> None:
    text, new = "The red pan, the old one.", {"cup": "red pan", "jug": "old", "pot": "x"}
    derive_vocabulary(text, "The cup, the jug one.", new)
    assert text in words._derived
    assert vocabulary(text) == {"the", "red", "pan", "old", "one", ",", "."}


def test_derived_vocabularies_are_forgotten_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_KEPT", 2)
    for number in range(5):
        derive_vocabulary(f"cup {number}", "cup x", {"x": str(number)})
        assert len(words._derived) <= 2
    assert [vocabulary(f"cup {number}") for number in range(5)] == [{"cup", str(number)} for number in range(5)]


def test_long_texts_are_hashed_and_not_kept() -> None:
    before = words._remembered_hash.cache_info().currsize
    assert stable_hash("a" * 1000) == stable_hash("a" * 1000) != stable_hash("a" * 1001)
    assert words._remembered_hash.cache_info().currsize == before
