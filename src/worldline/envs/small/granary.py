"""`granary`: buy grain while it is cheap and sell it while it is dear, eight days, quantities in every sentence.

Each day draws a price from 1 to 9 coins a sack. The granary holds six sacks; what is left on the last evening is lost.
The return is what was gained, as a share of 50 coins.
"""

import functools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from worldline.envs.small.script import Rule, latest_first
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

DAYS, SACKS, COINS, UNIT = 8, 6, 60, 50
PRICES = range(1, 10)
WAIT = "wait"


class GranaryConfig(SmallConfig):
    """The granary."""


class GranaryGame:
    """Eight days."""

    goal = f"You have {COINS} coins and an empty granary for {SACKS} sacks. Be as rich as you can after {DAYS} days."

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._day, self._coins, self._stored = 1, COINS, 0
        self._price = draw.choice(PRICES)

    def introduction(self) -> str:
        return self._view()

    def admissible(self) -> Sequence[str]:
        most = min(SACKS - self._stored, self._coins // self._price)
        buying = [f"buy {sacks}" for sacks in range(1, most + 1)]
        return [WAIT, *buying, *(f"sell {sacks}" for sacks in range(1, self._stored + 1))]

    def act(self, action: str) -> Reaction:
        valid = action in self.admissible()
        verb, _, sacks = action.partition(" ")
        traded = int(sacks) * (1 if verb == "buy" else -1) if valid and verb != WAIT else 0
        self._stored += traded
        self._coins -= traded * self._price
        reward = -traded * self._price / UNIT
        self._day += 1
        if self._day > DAYS:
            end = f"The market closes. You have {self._coins} coins."
            return Reaction(end, reward, over=True, won=self._coins > COINS, valid=valid)
        self._price = self._draw.choice(PRICES)
        return Reaction(self._view(), reward, valid=valid)

    def _view(self) -> str:
        holdings = f"{self._stored} sack{'' if self._stored == 1 else 's'}"
        return f"Day {self._day}. Grain costs {self._price} a sack. You have {self._coins} coins and {holdings}."


class Holdings(NamedTuple):
    """What the merchant sees."""

    day: int
    price: int
    coins: int
    stored: int

    @property
    def most(self) -> int:
        """How much can be bought."""
        return min(SACKS - self.stored, self.coins // max(1, self.price))


class GranaryWorld(SmallWorld):
    """The granary. Tasks are all alike: the prices make the difference."""

    name = "granary"
    max_steps = DAYS
    max_return = 2.5
    return_range = (-COINS / UNIT, max_return)  # more than 2.5 can be gained, but one episode in hundreds does

    def __init__(self, config: GranaryConfig | None = None) -> None:
        self.config: GranaryConfig = config or GranaryConfig()

    def game(self, task: random.Random, draw: random.Random) -> GranaryGame:
        return GranaryGame(draw)

    @property
    def scripts(self) -> Mapping[str, Rule]:
        def rule(low: int, high: int, sacks: int = SACKS) -> Rule:
            """Buys at `low` and below, sells at `high` and above, so many at a time; all on the last day."""

            def decide(turn: Turn) -> str:
                holdings = holdings_of(turn)
                if holdings.day >= DAYS or holdings.price >= high:
                    return _trade(holdings, -sacks if holdings.day < DAYS else -SACKS)
                return _trade(holdings, sacks if holdings.price <= low else 0)

            return decide

        return {
            "optimal": _best,
            "cautious": rule(2, 8),
            "usual": rule(4, 6),
            "in twos": rule(4, 6, 2),
            "one by one": rule(4, 6, 1),
            "greedy": rule(1, 9),
            "buys dear": rule(9, 10),
            "backwards": lambda turn: _trade(holdings_of(turn), SACKS if holdings_of(turn).price >= 6 else -SACKS),
            "hoards": lambda turn: _trade(holdings_of(turn), SACKS),
            "hoards slowly": lambda turn: _trade(holdings_of(turn), 1),
            "waits": lambda turn: WAIT,
            "random": lambda turn: dict.fromkeys(turn.admissible or (WAIT,), 1.0),
        }


def holdings_of(turn: Turn) -> Holdings:
    for text in latest_first(turn):
        if match := re.search(r"Day (\d+)\. Grain costs (\d+) a sack\. You have (\d+) coins and (\d+) sack", text):
            return Holdings(*(int(number) for number in match.groups()))
    return Holdings(1, 5, COINS, 0)


def _trade(holdings: Holdings, sacks: int) -> str:
    """Buy (or sell, below 0) so many, or as many as possible."""
    if sacks > 0 and holdings.most > 0:
        return f"buy {min(sacks, holdings.most)}"
    return f"sell {min(-sacks, holdings.stored)}" if sacks < 0 and holdings.stored else WAIT


@functools.cache
def worth_of_a_sack(day: int) -> float:
    """What a sack is worth on the evening of a day, before the next price is drawn, while coins are no limit.

    The place of a sack is worth something too: an empty one can be filled when grain is cheap.
    """
    return _expected(day, lambda price, full, empty: full) - _expected(day, lambda price, full, empty: empty)


def _expected(day: int, which: Callable[[int, float, float], float]) -> float:
    """The mean over tomorrow's prices of the value of a full or an empty place."""
    if day >= DAYS:
        return 0.0
    full, empty = _places(day + 1)
    return sum(which(p, full[p - 1], empty[p - 1]) for p in PRICES) / len(PRICES)


@functools.cache
def _places(day: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The value of a full and of an empty place on the morning of a day, by price."""
    later_full = _expected(day, lambda price, full, empty: full)
    later_empty = _expected(day, lambda price, full, empty: empty)
    full = tuple(max(later_full, price + later_empty) for price in PRICES)
    empty = tuple(max(later_empty, later_full - price) for price in PRICES)
    return full, empty


def _best(turn: Turn) -> str:
    holdings = holdings_of(turn)
    worth = worth_of_a_sack(holdings.day)
    return _trade(holdings, SACKS if holdings.price < worth else -SACKS if holdings.price > worth else 0)
