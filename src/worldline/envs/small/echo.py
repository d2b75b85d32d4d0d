"""`echo`: call into a valley; whether it answers depends on the last two calls and on chance.

No observation names an earlier call: who looks at the present observation alone cannot tell what will be answered.
Twelve calls; each call that is answered in tune earns a twelfth.
"""

import random
from collections.abc import Mapping, Sequence

from worldline.envs.small.script import Rule
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

CALLS = ("sing low", "sing high", "clap")
ROUNDS = 12
TUNE = ((0.2, 0.8, 0.4), (0.35, 0.1, 0.9), (0.6, 0.3, 0.05))
"""The chance of an answer in tune by the call before (row) and the present one (column)."""
FIRST = 0.3
"""The chance for the first call of an episode."""


class EchoConfig(SmallConfig):
    """The echo."""


class EchoGame:
    """Twelve calls."""

    goal = f"Call into the valley {ROUNDS} times, so that the echo answers in tune as often as possible."

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._before: int | None = None
        self._calls = 0

    def introduction(self) -> str:
        return "The valley lies before you, and it is quiet."

    def admissible(self) -> Sequence[str]:
        return CALLS

    def act(self, action: str) -> Reaction:
        self._calls += 1
        over = self._calls >= ROUNDS
        if action not in CALLS:
            return Reaction("The wind blows.", over=over, valid=False)
        call = CALLS.index(action)
        chance = FIRST if self._before is None else TUNE[self._before][call]
        self._before = call
        if self._draw.random() < chance:
            return Reaction("The echo answers in tune.", 1 / ROUNDS, over=over, won=over)
        return Reaction(self._draw.choice(("The echo is off key.", "No echo comes back.")), over=over)


class EchoWorld(SmallWorld):
    """The echo. Tasks are all alike: chance makes the difference."""

    name = "echo"
    max_steps = ROUNDS

    def __init__(self, config: EchoConfig | None = None) -> None:
        self.config: EchoConfig = config or EchoConfig()

    def game(self, task: random.Random, draw: random.Random) -> EchoGame:
        return EchoGame(draw)

    @property
    def scripts(self) -> Mapping[str, Rule]:
        low, high, clap = CALLS
        return {
            "optimal": _pattern(low, high, clap),
            "backwards": _pattern(clap, high, low),
            "low and high": _pattern(low, high),
            "high and clap": _pattern(high, clap),
            "low and clap": _pattern(low, clap),
            "low only": _pattern(low),
            "high only": _pattern(high),
            "claps": _pattern(clap),
            "random": lambda turn: dict.fromkeys(CALLS, 1.0),
            "stays while in tune": _stay,
            "pairs": _pattern(low, low, high, high, clap, clap),
        }


def _pattern(*calls: str) -> Rule:
    return lambda turn: calls[turn.step % len(calls)]


def _stay(turn: Turn) -> str:
    """Repeats a call that was answered in tune, and goes on to the next call otherwise."""
    if not turn.history or turn.history[-1].action not in CALLS:
        return CALLS[0]
    before = CALLS.index(turn.history[-1].action)
    return CALLS[before] if "in tune" in turn.observation else CALLS[(before + 1) % len(CALLS)]
