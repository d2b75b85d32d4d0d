import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldline.narrator.grammar import Command, Grammar, Listing, kind, listing, relisted, renamed

HOUSE = [
    *[f"go to {r}" for r in ("drawer 1", "drawer 2", "fridge 1", "desk 1", "shelf 1", "sinkbasin 1")],
    *[f"take {o} from {r}" for o in ("apple 1", "cup 2", "pen 1") for r in ("drawer 1", "fridge 1", "desk 1")],
    *[f"move {o} to {r}" for o in ("apple 1", "cup 2", "pen 1") for r in ("drawer 1", "fridge 1", "desk 1")],
    *[f"clean {o} with sinkbasin 1" for o in ("apple 1", "cup 2", "fork 3")],
    *["use desklamp 1", "use desklamp 2", "look", "inventory"],
]
SHOP = ["click[buy now]", "click[b0123]", "click[light blue]", "search[red shirt]", "search[a pair of shoes]"]


@pytest.fixture(scope="module")
def house() -> Grammar:
    return Grammar.induce(HOUSE)


@pytest.mark.parametrize(
    ("action", "template", "things"),
    [
        ("go to drawer 2", "go to *", ("drawer 2",)),
        ("take apple 1 from fridge 1", "take * from *", ("apple 1", "fridge 1")),
        ("take box 9 from safe 4", "take * from *", ("box 9", "safe 4")),
        ("clean cup 2 with sinkbasin 1", "clean * with *", ("cup 2", "sinkbasin 1")),
        ("use desklamp 2", "use *", ("desklamp 2",)),
        ("look", "look", ()),
        ("dance wildly", "*", ("dance wildly",)),
        ("", "", ()),
    ],
)
def test_actions_come_apart(house: Grammar, action: str, template: str, things: tuple[str, ...]) -> None:
    assert house.parse(action) == Command(template, things)


def test_web_actions_have_one_slot() -> None:
    grammar = Grammar.induce(SHOP)
    assert grammar.parse("click[light blue]") == Command("click [ * ]", ("light blue",))
    assert grammar.parse("click[20 ounce]") == Command("click [ * ]", ("20 ounce",)), "a number takes no bracket along"
    assert grammar.parse("search[green hat]") == Command("search [ * ]", ("green hat",))


def test_search_tags_come_apart() -> None:
    actions = [f"<search>{q}</search>" for q in ("a b", "c d", "e")] + [f"<answer>{q}</answer>" for q in ("x", "y z")]
    grammar = Grammar.induce(actions)
    assert grammar.parse("<answer>new</answer>").things == ("new",)
    assert grammar.parse("<search>who is it</search>").things == ("who is it",)
    assert grammar.parse("<answer>1987</answer>").kinds == grammar.parse("<answer>2001</answer>").kinds == ("#",)


def test_things_are_found_in_any_text(house: Grammar) -> None:
    seen = "On the desk 1, you see a apple 7, a cup 2, and a spaceship 1. The apple 7 is red."
    assert house.things(seen) == ("desk 1", "apple 7", "cup 2")
    assert house.outline(seen) == "on the * , you see a * , a"


def test_goals_name_kinds_by_role(house: Grammar) -> None:
    expected = {"take * from *#0": "apple", "go to *#0": "fridge"}
    assert {house.roles["apple"], house.roles["fridge"]} == {"take * from *#0", "go to *#0"} or house.roles["apple"]
    roles = house.goal_roles("put a clean apple in fridge.")
    assert set(roles.values()) == set(expected.values())
    assert roles == {house.roles["apple"]: "apple", house.roles["fridge"]: "fridge"}


def test_kind_drops_numbers_but_keeps_a_name() -> None:
    assert kind("apple 1") == "apple"
    assert kind("42") == "42"


def test_renaming_trades_places_and_respects_words() -> None:
    text = "You see a cup 1, a cup 12, and a apple 1. Cup 1!"
    assert renamed(text, {"cup 1": "apple 1"}) == "You see a apple 1, a cup 12, and a cup 1. apple 1!"
    assert renamed(text, {"cup 1": "cup 1"}) == text
    assert renamed("in drawer 3 or drawer 5", {"drawer 3": "drawer 5"}) == "in drawer 5 or drawer 3"


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
    listed = listing(text, GRAMMAR)
    assert listed is not None
    assert listed.things == things
    assert listed.text() == text


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
