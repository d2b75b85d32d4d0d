import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldline.adwm.grammar import Grammar
from worldline.adwm.listing import Listing, listing, relisted

GRAMMAR = Grammar.induce(
    [f"take {o} from {r}" for o in ("cup 1", "pen 2", "box 3") for r in ("desk 1", "safe 2", "bed 4")]
)
THINGS = [f"{kind} {n}" for kind in ("cup", "pen", "box") for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("text", "things"),
    [
        ("On the desk 1, you see a cup 1, a pen 2, and a box 3.", ("cup 1", "pen 2", "box 3")),
        ("On the desk 1, you see a cup 1.", ("cup 1",)),
        ("The safe 2 is open. In it, you see nothing.", ()),
    ],
)
def test_enumerations_are_found(text: str, things: tuple[str, ...]) -> None:
    found = listing(text, GRAMMAR)
    assert found is not None
    assert found.things == things
    assert found.text() == text


def test_a_text_without_enumeration_has_none() -> None:
    assert listing("You pick up the cup 1 from the desk 1.", GRAMMAR) is None
    assert relisted("You pick up the cup 1 from the desk 1.", GRAMMAR, ["cup 1"], []) == (
        "You pick up the cup 1 from the desk 1."
    )


@given(st.sets(st.sampled_from(THINGS)), st.sets(st.sampled_from(THINGS)), st.sets(st.sampled_from(THINGS)))
def test_relisting_is_set_arithmetic_in_order(shown: set[str], gone: set[str], there: set[str]) -> None:
    text = Listing("On the desk 1, you see ", tuple(sorted(shown)), ".").text()
    expected = tuple(sorted((shown - gone) | (there)))
    assert relisted(text, GRAMMAR, gone, sorted(there)) == Listing("On the desk 1, you see ", expected, ".").text()
