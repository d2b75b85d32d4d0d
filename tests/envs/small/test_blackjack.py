"""Blackjack: basic strategy by dynamic programming, the showdown and the dealer against sums of chances."""

import functools
import random

import pytest

from worldline.envs.small.blackjack import DECK, HIT, STICK, BlackjackGame, Hand, hits_best, worth


@functools.cache
def dealer(total: int, ace: bool) -> dict[int, float]:
    """Totals of a dealer who draws to 17, by hard total and whether there is an ace; above 21 is 22."""
    best = total + 10 if ace and total + 10 <= 21 else total
    if best >= 17:
        return {min(best, 22): 1.0}
    sums: dict[int, float] = {}
    for card in DECK:
        for last, p in dealer(total + card, ace or card == 1).items():
            sums[last] = sums.get(last, 0.0) + p / 13
    return sums


def stick_value(own: int, shown: int) -> float:
    hidden = [dealer(shown + card, 1 in (shown, card)) for card in DECK]
    return sum(
        p / 13 * ((other > 21 or own > other) - (other <= 21 and own < other)) for d in hidden for other, p in d.items()
    )


@functools.cache
def best_value(total: int, ace: bool, shown: int) -> float:
    if total > 21:
        return -1.0
    return max(stick_value(worth_of(total, ace), shown), hit_value(total, ace, shown))


def hit_value(total: int, ace: bool, shown: int) -> float:
    return sum(best_value(total + card, ace or card == 1, shown) for card in DECK) / 13


def worth_of(total: int, ace: bool) -> int:
    return total + 10 if ace and total + 10 <= 21 else total


def test_worth() -> None:
    assert worth([1, 6]) == (17, True)
    assert worth([1, 6, 10]) == (17, False)
    assert worth([1, 1]) == (12, True)
    assert worth([10, 9, 5]) == (24, False)


def test_basic_strategy_is_optimal_for_every_hand() -> None:
    for shown in range(1, 11):
        for total in range(4, 22):
            assert hits_best(Hand(total, False, shown)) == (
                hit_value(total, False, shown) > stick_value(total, shown)
            ), (total, shown)
        for total in range(2, 12):  # soft hands: the ace counts 11
            assert hits_best(Hand(total + 10, True, shown)) == (
                hit_value(total, True, shown) > stick_value(total + 10, shown)
            ), (total + 10, shown, "soft")


@pytest.mark.parametrize(("own", "shown"), [((10, 8), 6), ((10, 10), 10), ((10, 6), 1)])
def test_sticking_earns_what_the_dealers_chances_say(own: tuple[int, int], shown: int) -> None:
    rewards = []
    for seed in range(4000):
        game = BlackjackGame(random.Random(seed))
        game._own, game._shown = list(own), shown
        rewards.append(game.act(STICK).reward)
    assert sum(rewards) / len(rewards) == pytest.approx(stick_value(sum(own), shown), abs=0.05)


def test_words() -> None:
    game = BlackjackGame(random.Random(0))
    game._own, game._shown = [1, 6], 1
    assert game.introduction() == "Your hand is worth 17 with a usable ace. The dealer shows an ace."
    game._own = [10, 10]
    game._draw.choice = lambda cards: 5  # type: ignore[assignment, method-assign]  # every card is a five
    outcome = game.act(HIT)
    assert (outcome.reward, outcome.over, outcome.won) == (-1.0, True, False)
    assert outcome.observation.endswith("You are bust and lose the hand.")
    assert not game.act("fold").valid
