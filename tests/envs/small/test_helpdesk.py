"""The help desk: every kind of customer, and what each end earns."""

import random
import re

import pytest

from worldline.envs.small.helpdesk import ASK, SORRY, WAIT, HelpdeskGame, HelpdeskWorld, enquiry_of
from worldline.types import Exchange, Turn


def game_of(state: str, days: int) -> HelpdeskGame:
    game = HelpdeskGame("lamp", random.Random(0))
    game._order, game._state, game._days, game._patience = 4321, state, days, 4
    return game


@pytest.mark.parametrize(
    ("state", "days", "right"),
    [
        ("lost", 3, "refund(order=4321)"),
        ("damaged", 12, "replace(order=4321)"),
        ("under way", 8, WAIT),
        ("under way", 9, "refund(order=4321)"),
    ],
)
def test_the_rule(state: str, days: int, right: str) -> None:
    expert, game = HelpdeskWorld().scripts["optimal"], game_of(state, days)
    history, text, action = list[Exchange](), game.introduction(), ""
    for _ in range(3):
        action = str(expert(Turn("generic", "", text, None, tuple(history))))
        outcome = game.act(action)
        history.append(Exchange(text, action))
        text = outcome.observation
    assert action == right
    assert outcome.over and outcome.won and outcome.reward == 1.0
    for other in ("refund(order=4321)", "replace(order=4321)", WAIT):
        wrong = game_of(state, days).act(other)
        assert wrong.over and wrong.reward == (1.0 if other == right else 0.0 if other == WAIT else 0.3)


def test_the_number_is_told_when_asked_and_the_tools_want_it() -> None:
    game = game_of("lost", 3)
    assert not re.search(r"\d{4}", game.introduction())
    assert "4321" in game.act(ASK).observation
    assert game.act("lookup(order=1)").observation == '{"error": "no such order"}'
    assert game.act("lookup(order=4321)").observation == '{"order": 4321, "state": "lost", "days": 3}'
    assert not game.act("delete(order=4321)").valid


def test_talk_ends_in_anger() -> None:
    game = game_of("lost", 3)
    outcomes = [game.act(SORRY) for _ in range(4)]
    assert [outcome.over for outcome in outcomes] == [False, False, False, True]
    assert outcomes[-1].reward == 0.0


def test_the_desk_remembers() -> None:
    history = (Exchange("Customer: Hello!", ASK), Exchange("Customer: It is 1234.", "lookup(order=1234)"))
    talk = enquiry_of(Turn("generic", "", '{"order": 1234, "state": "under way", "days": 11}', None, history))
    assert (talk.order, talk.state, talk.days) == ("1234", "under way", 11)
