"""`blackjack`: hit or stick against a dealer who stands at 17; an endless deck, an ace counts 1 or 11.

A hand earns 1, 0 or -1. No doubling, no splitting, and a natural is worth no more than any 21.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from worldline.envs.small.script import Rule, latest_first
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

DECK = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10)
HIT, STICK = "hit", "stick"


class BlackjackConfig(SmallConfig):
    """Blackjack."""


def worth(cards: Sequence[int]) -> tuple[int, bool]:
    """The best total of a hand, and whether an ace counts 11 in it."""
    total = sum(cards)
    return (total + 10, True) if 1 in cards and total + 10 <= 21 else (total, False)


class BlackjackGame:
    """One hand."""

    ACTIONS = (HIT, STICK)
    goal = "Beat the dealer at blackjack: come closer to 21, but not above it."

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._own = [draw.choice(DECK), draw.choice(DECK)]
        self._shown = draw.choice(DECK)

    def introduction(self) -> str:
        return self._view()

    def admissible(self) -> Sequence[str]:
        return self.ACTIONS

    def act(self, action: str) -> Reaction:
        if action == HIT:
            self._own.append(self._draw.choice(DECK))
            if worth(self._own)[0] > 21:
                return Reaction(f"{self._view()} You are bust and lose the hand.", -1.0, over=True)
            return Reaction(self._view())
        if action == STICK:
            return self._showdown()
        return Reaction(f"The dealer waits: {HIT} or {STICK}?", valid=False)

    def _showdown(self) -> Reaction:
        dealer = [self._shown, self._draw.choice(DECK)]
        while worth(dealer)[0] < 17:
            dealer.append(self._draw.choice(DECK))
        own, other = worth(self._own)[0], worth(dealer)[0]
        reward = float(other > 21 or own > other) - float(other <= 21 and own < other)
        end = {1.0: "You win the hand.", 0.0: "It is a draw.", -1.0: "You lose the hand."}[reward]
        dealt = "is bust" if other > 21 else f"ends with {other}"
        return Reaction(f"{self._view()} The dealer {dealt}. {end}", reward, over=True, won=reward > 0)

    def _view(self) -> str:
        return self.view(*worth(self._own), self._shown)

    @staticmethod
    def view(total: int, soft: bool, shown: int) -> str:
        ace = " with a usable ace" if soft else ""
        return f"Your hand is worth {total}{ace}. The dealer shows {'an ace' if shown == 1 else shown}."


class Hand(NamedTuple):
    """What a player sees."""

    total: int
    soft: bool
    dealer: int
    """The dealer's card, an ace is 1."""


class BlackjackWorld(SmallWorld):
    """Blackjack. Tasks are all alike: the cards make the difference."""

    name = "blackjack"
    max_steps = 12
    return_range = (-1.0, 1.0)

    def __init__(self, config: BlackjackConfig | None = None) -> None:
        self.config: BlackjackConfig = config or BlackjackConfig()

    def game(self, task: random.Random, draw: random.Random) -> BlackjackGame:
        return BlackjackGame(draw)

    @property
    def scripts(self) -> Mapping[str, Rule]:
        def rule(hits: Callable[[Hand], bool]) -> Rule:
            return lambda turn: HIT if hits(hand_of(turn)) else STICK

        def below(limit: int) -> Rule:
            return rule(lambda hand: hand.total < limit)

        return {
            "optimal": rule(hits_best),
            **{f"sticks at {limit}": below(limit) for limit in (13, 17, 18, 20, 21)},
            "always sticks": rule(lambda hand: False),
            "inverted": rule(lambda hand: not hits_best(hand)),
            "bold against weak cards": rule(lambda hand: hand.total < (20 if 2 <= hand.dealer <= 6 else 12)),
            "random": lambda turn: {HIT: 0.5, STICK: 0.5},
        }


def hand_of(turn: Turn) -> Hand:
    """The hand in the latest observation that shows one."""
    for text in latest_first(turn):
        if match := re.search(r"worth (\d+)( with a usable ace)?\. The dealer shows (an ace|\d+)", text):
            return Hand(int(match[1]), bool(match[2]), 1 if match[3] == "an ace" else int(match[3]))
    return Hand(21, soft=False, dealer=10)


def hits_best(hand: Hand) -> bool:
    """Basic strategy for hit and stick."""
    if hand.soft:
        return hand.total <= 17 or (hand.total == 18 and hand.dealer in (1, 9, 10))
    if hand.total <= 11:
        return True
    if hand.total == 12:
        return not 4 <= hand.dealer <= 6
    return hand.total <= 16 and not 2 <= hand.dealer <= 6
