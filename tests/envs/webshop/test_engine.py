"""The rules of a session, page by page, on a catalogue small enough to check by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webshop_tiny import CATALOGUE, GOAL

from worldline.envs.webshop.engine import Place, ShoppingSession
from worldline.envs.webshop.nouns import title_nouns

HEAD = f"Instruction: [SEP] {GOAL.instruction} [SEP] Back to Search"


@pytest.fixture
def session() -> ShoppingSession:
    return ShoppingSession(CATALOGUE, GOAL, title_nouns)


def do(session: ShoppingSession, *actions: str) -> ShoppingSession:
    for action in actions:
        assert session.act(action), action
    return session


def test_start_page(session: ShoppingSession) -> None:
    assert session.observation == f"WebShop [SEP] Instruction: [SEP] {GOAL.instruction} [SEP] Search"
    assert session.admissible
    assert all(session.clone().act(action) for action in session.admissible)


def test_results_page_lists_ten_and_turns(session: ShoppingSession) -> None:
    do(session, "search[cotton]")
    first, second = session.observation, do(session, "click[next >]").observation
    assert first.startswith(f"{HEAD} [SEP] Page 1 (Total results: 13) [SEP] Next > [SEP] B000000100 [SEP] Cotton Cl")
    assert first.count(" [SEP] $") == 10
    assert second.startswith(f"{HEAD} [SEP] Page 2 (Total results: 13) [SEP] < Prev [SEP] Next > [SEP] ")
    assert second.endswith(" [SEP] B000000001 [SEP] Soft Cotton Towel [SEP] $8.0 to $12.5")  # the longest text, so last
    assert second.count(" [SEP] $") == 3
    assert do(session, "click[next >]").observation == (
        f"{HEAD} [SEP] Page 3 (Total results: 13) [SEP] < Prev [SEP] Next >"
    )
    assert do(session, "click[< prev]", "click[< prev]").observation == first


def test_item_page(session: ShoppingSession) -> None:
    do(session, "search[towel]", "click[B000000001]")
    assert session.observation == (
        f"{HEAD} [SEP] < Prev [SEP] color [SEP] navy [SEP] off white [SEP] size [SEP] small [SEP] large"
        " [SEP] Soft Cotton Towel [SEP] Price: $8.0 to $12.5 [SEP] Rating: N.A."
        " [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    clicks = "back to search,< prev,description,features,reviews,buy now,navy,off white,small,large"
    assert session.admissible == tuple(f"click[{name}]" for name in clicks.split(","))


@pytest.mark.parametrize(
    ("page", "text"),
    [("description", " [SEP] Dries fast."), ("features", " [SEP] Machine Wash [SEP] "), ("reviews", "")],
)
def test_sub_pages_and_the_way_back(session: ShoppingSession, page: str, text: str) -> None:
    do(session, "search[towel]", "click[b000000001]", "click[navy]", f"click[{page}]")
    assert session.observation == f"{HEAD} [SEP] < Prev{text}"
    assert session.admissible == ("click[back to search]", "click[< prev]")
    assert "Buy Now" in do(session, "click[< prev]").observation
    assert session.options == {"color": "navy"}


def test_leaving_an_item_forgets_its_options(session: ShoppingSession) -> None:
    do(session, "search[towel]", "click[b000000001]", "click[navy]", "click[< prev]")
    assert session.options == {}
    do(session, "click[b000000001]", "click[large]", "search[towel]", "click[b000000001]")
    assert session.options == {}


def test_a_later_choice_replaces_an_earlier_one(session: ShoppingSession) -> None:
    do(session, "search[towel]", "click[b000000001]", "click[small]", "click[large]")
    assert session.options == {"size": "large"}


def test_a_value_of_two_options_goes_to_the_last_and_buttons_come_first(session: ShoppingSession) -> None:
    do(session, "search[mug]", "click[b000000002]", "click[navy]")
    assert session.options == {"color": "navy"}
    do(session, "click[features]")
    assert session.place is Place.SUB_PAGE


def test_buying_ends_it_and_shows_the_score(session: ShoppingSession) -> None:
    do(session, "search[towel]", "click[b000000001]", "click[large]", "click[navy]", "click[buy now]")
    assert session.done
    assert session.score == 1.0
    assert '[SEP] options [SEP] {"color": "navy", "size": "large"} [SEP]' in session.observation
    assert "[SEP] Your score (min 0.0, max 1.0) [SEP] 1.0 [SEP]" in session.observation
    assert session.admissible == ()


def test_search_works_from_every_page_and_back_to_search_starts_anew(session: ShoppingSession) -> None:
    do(session, "search[towel]", "click[b000000001]", "click[features]", "search[MUG]")
    assert "Page 1 (Total results: 1)" in session.observation
    do(session, "click[back to search]")
    assert session.observation.startswith("WebShop [SEP] ")


@pytest.mark.parametrize(
    "action",
    [
        "",
        "look",
        "click[]",
        "search[]",
        "click[search]",
        "Click[back to search]",
        "click[buy now]",
        "buy[x]",
        "[x]",
        "click[a[b]]",
    ],
)
def test_what_is_not_understood_changes_nothing(session: ShoppingSession, action: str) -> None:
    for place in ("start", "results"):
        before = session.observation
        assert not session.act(action), place
        assert session.observation == before
        do(session, "search[zebra]")


def test_text_after_the_bracket_is_ignored_and_case_does_not_matter(session: ShoppingSession) -> None:
    do(session, "search[Towel] and then some", "click[B000000001]", "click[NAVY]")
    assert session.options == {"color": "navy"}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(st.integers(0, 99), st.text(max_size=12)), max_size=25))
def test_every_admissible_action_is_valid_and_clones_agree(choices: list[int | str]) -> None:
    session = ShoppingSession(CATALOGUE, GOAL, title_nouns)
    for choice in choices:
        if session.done:
            break
        if isinstance(choice, int):
            assert session.admissible
            action = session.admissible[choice % len(session.admissible)]
            twin = session.clone()
            assert session.act(action)
            assert twin.act(action)
            assert (twin.observation, twin.admissible) == (session.observation, session.admissible)
        else:
            session.act(f"search[{choice}]")
            session.act(f"click[{choice}]")
