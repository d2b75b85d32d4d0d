"""Haggling: what a sale earns, what a seller never does, and how often an offer is taken."""

import random
import re

import pytest

from worldline.envs.small.haggling import LEAVE, PLEAD, PRAISE, TAKE, HagglingGame, HagglingWorld, offering, talk_of
from worldline.types import Exchange, Turn


def price_of(text: str) -> int:
    match = re.search(r"(\d+) coins", text)
    assert match
    return int(match[1])


@pytest.mark.parametrize("seed", range(50))
def test_agreeing_pays_the_price_last_named(seed: int) -> None:
    game = HagglingGame("guitar", random.Random(seed))
    price = price_of(game.introduction())
    for action in (PLEAD, offering(price - 10), PRAISE):
        outcome = game.act(action)
        if outcome.over:
            return
        if "coins" in outcome.observation:
            assert price_of(outcome.observation) <= price, "a price never rises"
            price = price_of(outcome.observation)
        assert price >= game._floor
    sold = game.act(TAKE)
    assert sold.over and sold.won and sold.reward == pytest.approx((100 - price) / 100)


def test_an_offer_below_the_floor_is_never_taken_and_one_above_it_in_two_of_five() -> None:
    taken = 0
    for seed in range(2000):
        game = HagglingGame("watch", random.Random(seed))
        low, fair = game._floor - 1, game._floor
        assert not HagglingGame("watch", random.Random(seed)).act(offering(low)).won
        outcome = game.act(offering(fair))
        taken += outcome.won
        assert not outcome.won or outcome.reward == pytest.approx((100 - fair) / 100)
    assert taken / 2000 == pytest.approx(0.4, abs=0.05)


def test_insults_cost_patience_twice() -> None:
    lengths = {}
    for share in (0.3, 0.8):
        total = 0
        for seed in range(300):
            game = HagglingGame("camera", random.Random(seed))
            offer = offering(share * game._floor)
            total += next(n for n in range(1, 9) if game.act(offer).over)
        lengths[share] = total / 300
    # patience is 2 to 6, equally likely: 1, 2, 2, 3, 3 insults and 2 to 6 low offers
    assert lengths[0.3] == pytest.approx(11 / 5, abs=0.2)
    assert lengths[0.8] == pytest.approx(20 / 5, abs=0.3)


def test_leaving_earns_nothing() -> None:
    outcome = HagglingGame("sofa", random.Random(0)).act(LEAVE)
    assert outcome.over and not outcome.won and outcome.reward == 0


def test_a_buyer_remembers_offers_and_the_last_price() -> None:
    history = (Exchange("The sofa costs 50 coins.", "I offer 20 coins."),)
    talk = talk_of(Turn("generic", "", "For you, 44 coins.", None, history))
    assert (talk.price, talk.offers) == (44, (20,))


def test_scripts_begin_with_the_best() -> None:
    assert next(iter(HagglingWorld().scripts)) == "shrewd"
