"""The granary: coins and sacks add up, and the best merchant against a sum over all prices."""

import random
import re

import numpy as np
import pytest

from worldline.envs.small.granary import COINS, DAYS, PRICES, SACKS, UNIT, GranaryGame, GranaryWorld, worth_of_a_sack
from worldline.envs.small.script import Script
from worldline.rollout import Rollout, plan


@pytest.mark.parametrize("seed", range(20))
def test_the_return_is_what_was_gained(seed: int) -> None:
    game, draws, total = GranaryGame(random.Random(seed)), random.Random(seed), 0.0
    for _ in range(DAYS):
        actions = game.admissible()
        outcome = game.act(draws.choice(actions))
        total += outcome.reward
        assert 0 <= game._stored <= SACKS and game._coins >= 0
    match = re.search(r"You have (\d+) coins", outcome.observation)
    assert outcome.over and match and total == pytest.approx((int(match[1]) - COINS) / UNIT)


def test_what_cannot_be_bought_or_sold_is_not_listed() -> None:
    game = GranaryGame(random.Random(0))
    game._coins, game._price, game._stored = 10, 4, 1
    assert list(game.admissible()) == ["wait", "buy 1", "buy 2", "sell 1"]
    outcome = game.act("buy 3")
    assert not outcome.valid and outcome.reward == 0


def all_or_nothing() -> tuple[np.ndarray, list[float]]:
    """Backward induction, any number bought or sold: the value of day 1 by price; the worth of a sack by day."""
    later = np.zeros(SACKS + 1)
    worths = []
    for _ in range(DAYS):
        worths.append(float(later[1] - later[0]))
        morning = np.array(
            [
                [max(later[kept] + p * (had - kept) for kept in range(SACKS + 1)) for had in range(SACKS + 1)]
                for p in PRICES
            ]
        )
        later = morning.mean(0)
    return morning[:, 0], worths[::-1]


def test_the_worth_of_a_sack_is_that_of_backward_induction() -> None:
    assert [worth_of_a_sack(day) for day in range(1, DAYS + 1)] == pytest.approx(all_or_nothing()[1])


def test_the_best_merchant_earns_the_optimum() -> None:
    world = GranaryWorld()
    episodes = Rollout(world, Script("optimal").load(world)).play(plan(world, "test", 1500, seed=0, run="t"))
    returns = np.array([episode.episode_return for episode in episodes])
    optimum = all_or_nothing()[0].mean() / UNIT
    assert returns.mean() == pytest.approx(optimum, abs=4 * returns.std() / len(returns) ** 0.5)
