"""`guess`: a number from 1 to 20, five guesses, 'higher' or 'lower' after each; nothing is listed.

The task fixes the number. The right number earns 1; whoever misses with the last guess earns up to a half, the more the
closer it was. Any sentence with one number in it is a guess.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.small.script import Rule
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

HIGHEST, GUESSES = 20, 5


class GuessConfig(SmallConfig):
    """Guess the number."""


class GuessGame:
    """One number."""

    goal = f"Find the number between 1 and {HIGHEST} with {GUESSES} guesses."

    def __init__(self, secret: int) -> None:
        self._secret, self._left = secret, GUESSES

    def introduction(self) -> str:
        return f"I think of a number between 1 and {HIGHEST}. You have {GUESSES} guesses."

    def admissible(self) -> None:
        return None

    def act(self, action: str) -> Reaction:
        numbers = re.findall(r"\d+", action)
        self._left -= 1
        if len(numbers) != 1:
            return self._missed("Name one number, please.", 0.0, valid=False)
        guess = int(numbers[0])
        if guess == self._secret:
            return Reaction(f"Yes, it is {guess}!", 1.0, over=True, won=True)
        off = abs(guess - self._secret)
        return self._missed(f"No, my number is {'higher' if guess < self._secret else 'lower'}.", max(0.0, 1 - off / 5))

    def _missed(self, answer: str, closeness: float, *, valid: bool = True) -> Reaction:
        if self._left:
            return Reaction(answer, valid=valid)
        return Reaction(f"No more guesses: it was {self._secret}.", 0.5 * closeness, over=True, valid=valid)


@dataclass(frozen=True)
class Bounds:
    """What the answers have left over."""

    low: int
    high: int
    tried: tuple[int, ...]


class GuessWorld(SmallWorld):
    """Guess the number."""

    name = "guess"
    max_steps = GUESSES

    def __init__(self, config: GuessConfig | None = None) -> None:
        self.config: GuessConfig = config or GuessConfig()

    def game(self, task: random.Random, draw: random.Random) -> GuessGame:
        return GuessGame(task.randint(1, HIGHEST))

    def menu(self, turn: Turn) -> Sequence[str]:
        return [sentence(number) for number in range(1, HIGHEST + 1)]

    @property
    def scripts(self) -> Mapping[str, Rule]:
        return {
            "halves": lambda turn: sentence(_share(turn, 0.5)),
            "a quarter up": lambda turn: sentence(_share(turn, 0.25)),
            "low end": lambda turn: sentence(_share(turn, 0.0)),
            "high end": lambda turn: sentence(_share(turn, 1.0)),
            "within": lambda turn: _equally(range(bounds_of(turn).low, bounds_of(turn).high + 1)),
            "untried": lambda turn: _equally([n for n in range(1, HIGHEST + 1) if n not in bounds_of(turn).tried]),
            "in threes": lambda turn: sentence(min(HIGHEST, 4 + 3 * turn.step)),
            "mishears": lambda turn: sentence(_share(turn, 0.5, misheard=True)),
            "forgets": lambda turn: sentence(_share(turn, 0.5, memory=1)),
        }


def sentence(number: int) -> str:
    return f"I say {number}."


def bounds_of(turn: Turn, memory: int | None = None, *, misheard: bool = False) -> Bounds:
    """The numbers that the answers allow, from the last `memory` answers (all: None)."""
    low, high, tried = 1, HIGHEST, []
    answers = [*(exchange.observation for exchange in turn.history[1:]), turn.observation]
    heard = list(zip((exchange.action for exchange in turn.history), answers, strict=False))
    for action, answer in heard[-memory:] if memory else heard:
        numbers = re.findall(r"\d+", action)
        if len(numbers) != 1:
            continue
        guess = int(numbers[0])
        tried.append(guess)
        if ("higher" in answer) != misheard:
            low = max(low, guess + 1)
        else:
            high = min(high, guess - 1)
    return Bounds(low, high, tuple(tried)) if low <= high else Bounds(1, HIGHEST, tuple(tried))


def _share(turn: Turn, share: float, memory: int | None = None, *, misheard: bool = False) -> int:
    """The number at this share of what is left over."""
    bounds = bounds_of(turn, memory, misheard=misheard)
    return bounds.low + int(share * (bounds.high - bounds.low))


def _equally(numbers: Sequence[int]) -> dict[str, float]:
    return {sentence(number): 1 / len(numbers) for number in numbers}
