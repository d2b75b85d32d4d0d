"""The reward, case by case."""

import pytest
from webshop_tiny import GOAL, MUG, TOWEL, product

from worldline.envs.webshop.goals import Goal
from worldline.envs.webshop.product import Product
from worldline.envs.webshop.reward import score, type_score


def words(title: str) -> list[str]:
    return title.lower().split()


def worth(goal: Goal, bought: Product, *chosen: str) -> float:
    return score(goal, bought, chosen, words).total


def test_parts_are_counted_one_by_one() -> None:
    assert worth(GOAL, TOWEL, "navy", "large") == 1.0
    assert worth(GOAL, TOWEL, "navy") == 3 / 4
    assert worth(GOAL, TOWEL) == 2 / 4
    dear = product("B1", TOWEL.title, attributes=TOWEL.attributes, price=20.01)
    assert worth(GOAL, dear, "navy", "large") == 3 / 4


def test_an_attribute_may_stand_in_any_text() -> None:
    for fields in (
        {"bullets": ("It is MACHINE WASHABLE",)},
        {"description": "machine washable"},
        {"attributes": ("washable machine",)},
    ):
        assert score(GOAL, product("B1", "Soft Cotton Towel", **fields), (), words).attributes == 1
    assert score(GOAL, product("B1", "Soft Cotton Towel", attributes=("hand wash",)), (), words).attributes == 0


def test_a_colour_word_inside_the_choice_stands_for_it() -> None:
    goal = Goal(TOWEL, "", (), (("color", "rustic brown"),), 20.0)
    assert score(goal, TOWEL, ["rustic brown"], words).options == 1
    assert score(goal, TOWEL, ["brown"], words).options == 1
    assert score(goal, TOWEL, ["dark brown"], words).options == 1  # `brown` comes before `dark` in the list of colours
    assert score(goal, TOWEL, ["black"], words).options == 0


def test_a_pair_whose_value_hides_a_colour_word_can_never_match() -> None:
    goal = Goal(TOWEL, "", (), (("material", "cashmere"),), 20.0)  # c-ash-mere
    assert score(goal, TOWEL, ["cashmere"], words).options == 0
    assert score(Goal(TOWEL, "", (), ("cashmere",), 20.0), TOWEL, ["cashmere"], words).options == 1  # a human goal


@pytest.mark.parametrize(
    ("title", "query", "shelf", "expected"),
    [
        ("a b c d e f g h i j", "other", "X", 1.0),  # all nouns shared
        ("a b c q", "other", "X", 1.0),  # 3/10 > 0.2
        ("a b q r", "other", "X", 0.5),  # 2/10, nothing else in common
        ("a b q r", "towels", "X", 1.0),  # same query
        ("a b q r", "other", "Home › Towels", 1.0),  # two shelves shared
        ("a b q r", "other", "Home › X", 0.5),
        ("a q r s", "other", "X", 0.5),  # 1/10 is not below 0.1
        ("q r s t", "towels", "Home › Bath › Towels", 0.0),  # no noun shared: nothing helps
    ],
)
def test_type_score(title: str, query: str, shelf: str, expected: float) -> None:
    wanted = product("B1", "a b c d e f g h i j")
    assert type_score(wanted, product("B2", title, query=query, product_category=shelf), words) == expected


def test_type_score_below_a_tenth_and_without_nouns() -> None:
    wanted = product("B1", "a b c d e f g h i j k")
    assert type_score(wanted, product("B2", "a q"), words) == 0.1
    assert type_score(wanted, MUG, lambda title: []) == 0.5  # counts as 0.2: not alike by title
    assert type_score(TOWEL, TOWEL, lambda title: []) == 1.0
