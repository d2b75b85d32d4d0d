"""`haggling`: buy something from a seller in free sentences; nothing is listed, what is saved is the reward.

The task fixes the article. The episode draws the seller's first price, the lowest price they would take, and their
patience, which none of the sentences names. An article is worth 100 coins to the buyer: a price of 60 earns 0.4.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.small.script import Rule
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

ARTICLES = {"bicycle": 42, "guitar": 52, "camera": 48, "sofa": 32, "telescope": 60, "watch": 38}
"""The middle of what their sellers would take at least."""
WORTH, ROUNDS, SPREAD = 100, 8, 7
TAKE, LEAVE = "Agreed, I buy it.", "Too expensive, farewell."
PLEAD, PRAISE = "Can you do better, please?", "It is really beautiful."


class HagglingConfig(SmallConfig):
    """Haggling."""


class HagglingGame:
    """One sale."""

    def __init__(self, article: str, draw: random.Random) -> None:
        self._article, self._draw = article, draw
        self._floor = ARTICLES[article] + draw.randint(-SPREAD, SPREAD)
        self._price = self._floor + draw.randint(14, 34)
        self._patience = draw.randint(2, 6)
        self.goal = f"Buy the {article} for as little as you can: it is worth {WORTH} coins to you."

    def introduction(self) -> str:
        greeting = self._draw.choice(("Welcome!", "Good day to you.", "Come closer, have a look."))
        return f"{greeting} The {self._article} costs {self._price} coins."

    def admissible(self) -> None:
        return None

    def act(self, action: str) -> Reaction:
        words, numbers = action.lower(), re.findall(r"\d+", action)
        if "agreed" in words:
            return self._sold(self._price)
        if "farewell" in words:
            return Reaction(self._draw.choice(("As you like.", "Your loss.")), over=True)
        if numbers:
            return self._offered(int(numbers[0][:6]))
        if "please" in words:
            return self._begged()
        return Reaction(self._draw.choice(("So it is. What do you offer?", "Thank you. And your price?")))

    def _offered(self, offer: int) -> Reaction:
        if offer >= self._price or (offer >= self._floor and self._draw.random() < 0.4):
            return self._sold(offer)
        insult = offer < 0.6 * self._floor
        self._patience -= 2 if insult else 1
        if self._patience <= 0:
            return Reaction(self._draw.choice(("Enough of this, go away.", "I do not sell to you.")), over=True)
        if insult:
            return Reaction(self._draw.choice(("You must be joking.", "That is an insult.")) + self._repeated())
        self._lower(self._draw.uniform(0.15, 0.55))
        coming = ("For you, {} coins.", "I can let it go for {} coins.", "Say {} coins and we have it.")
        return Reaction(self._draw.choice(coming).format(self._price))

    def _begged(self) -> Reaction:
        self._patience -= self._draw.random() < 0.3
        if self._patience <= 0:
            return Reaction("I have no time for this.", over=True)
        if self._draw.random() < 0.5:
            return Reaction("No, I cannot." + self._repeated())
        self._lower(0.2)
        return Reaction(f"Because it is you: {self._price} coins.")

    def _lower(self, share: float) -> None:
        self._price -= round(share * (self._price - self._floor))

    def _repeated(self) -> str:
        return f" It stays at {self._price} coins."

    def _sold(self, price: int) -> Reaction:
        ending = self._draw.choice(("It is yours.", "Sold. Take good care of it."))
        return Reaction(ending, min(1.0, max(0.0, (WORTH - price) / WORTH)), over=True, won=True)


@dataclass(frozen=True)
class Talk:
    """What was spoken so far."""

    price: int
    """The last that the seller named."""
    offers: tuple[int, ...]


class HagglingWorld(SmallWorld):
    """Haggling."""

    name = "haggling"
    max_steps = ROUNDS
    max_return = (WORTH - min(ARTICLES.values()) + SPREAD) / WORTH
    return_range = (0.0, max_return)

    def __init__(self, config: HagglingConfig | None = None) -> None:
        self.config: HagglingConfig = config or HagglingConfig()

    def game(self, task: random.Random, draw: random.Random) -> HagglingGame:
        return HagglingGame(task.choice(list(ARTICLES)), draw)

    def menu(self, turn: Turn) -> Sequence[str]:
        price = talk_of(turn).price
        return [TAKE, LEAVE, PLEAD, PRAISE, *(offering(price * share) for share in (0.4, 0.6, 0.7, 0.8, 0.9))]

    @property
    def scripts(self) -> Mapping[str, Rule]:
        return {
            "shrewd": _climbing(0.7, 0.06, 2),
            "patient": _climbing(0.6, 0.04, 3),
            "generous": _climbing(0.9, 0.05, 1),
            "stingy": _climbing(0.4, 0.04, 6),
            "takes at once": lambda turn: TAKE,
            "leaves half the time": lambda turn: {TAKE: 0.5, LEAVE: 0.5},
            "begs, then takes": lambda turn: PLEAD if turn.step < 3 else TAKE,
            "hard": _climbing(0.5, 0.06, 5),
            "walks away": lambda turn: LEAVE if turn.step > 1 else offering(talk_of(turn).price * 0.7),
            "talks": lambda turn: {PLEAD: 0.3, PRAISE: 0.2, TAKE: 0.2, offering(talk_of(turn).price * 0.7): 0.3},
        }


def offering(coins: float) -> str:
    return f"I offer {round(coins)} coins."


def talk_of(turn: Turn) -> Talk:
    spoken = [*(exchange.observation for exchange in turn.history), turn.observation]
    prices = [int(number) for text in spoken for number in re.findall(r"(\d+) coins", text)]
    offers = [int(number) for exchange in turn.history for number in re.findall(r"\d+", exchange.action)]
    return Talk(prices[-1] if prices else WORTH, tuple(offers))


def _climbing(first: float, rise: float, offers: int) -> Rule:
    """Offers a share of the first price, then more each time; takes the price after so many offers."""

    def rule(turn: Turn) -> str:
        talk = talk_of(turn)
        if len(talk.offers) >= offers or turn.step >= ROUNDS - 1:
            return TAKE
        offer = talk.offers[-1] + max(1, round(rise * talk.price)) if talk.offers else round(first * talk.price)
        return TAKE if offer >= talk.price else offering(offer)

    return rule
