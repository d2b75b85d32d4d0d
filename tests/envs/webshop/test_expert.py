"""What is read out of instructions, and that the expert keeps its head whatever it is shown."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldline.envs.webshop import expert
from worldline.envs.webshop.instruction import price_limit, queries
from worldline.types import Exchange, Turn


@pytest.mark.parametrize(
    ("instruction", "limit", "expected"),
    [
        (
            "Find me soft, warm throw blankets with long fibre with color: navy, and size: 50 x 60,"
            " and price lower than 30.00 dollars",
            30.0,
            ["throw blankets", "soft, warm throw blankets", "soft, warm throw blankets with long fibre"],
        ),
        (
            "i'm looking for gluten free green tea; the flavor should be mint, under 40 dollars",
            40.0,
            ["green tea", "gluten free green tea", "gluten free green tea; the flavor should be mint"],
        ),
        ("i need a rug. my budget is 55.50 dollars", 55.5, ["rug"]),
        ("", None, ["anything"]),
    ],
)
def test_limits_and_queries_come_from_the_words_alone(
    instruction: str, limit: float | None, expected: list[str]
) -> None:
    assert price_limit(instruction) == limit
    listed = queries(instruction)
    assert list(listed[: len(expected)]) == expected
    assert len(set(listed)) == len(listed) <= 4


@given(st.text(max_size=80))
def test_queries_can_always_be_searched_for(instruction: str) -> None:
    for query in queries(instruction):
        assert query.strip()
        assert "[" not in query
        assert "]" not in query


NODES = """WebShop;Instruction:;find me tea;Back to Search;< Prev;Next >;Page 1 (Total results: 3);B000000001;Tea;$3.5;
Price: $3.5;Rating: N.A.;color;navy;Features;Buy Now;"""
PIECES = st.one_of(st.sampled_from(NODES.replace("\n", "").split(";")), st.text(max_size=5))
PAGES = st.lists(PIECES, max_size=14).map(" [SEP] ".join)
ACTIONS = st.one_of(
    st.sampled_from(["search[tea]", "click[b000000001]", "click[features]", "click[< prev]", "click[navy]"]), st.text()
)


@settings(deadline=None, max_examples=150)
@given(PAGES, st.lists(st.tuples(PAGES, ACTIONS), max_size=6), st.sets(ACTIONS | st.just("click[buy now]")))
def test_expert_answers_any_page(page: str, past: list[tuple[str, str]], admissible: set[str]) -> None:
    history = [Exchange(observation, action) for observation, action in past]
    turn = Turn("shop", "find me tea with color: navy, under 5 dollars", page, sorted(admissible), history)
    assert expert.act(turn).startswith(("search[", "click["))
