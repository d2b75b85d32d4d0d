"""Scripted policies with exact probabilities: a rule from a turn to an action or to chances, mixed with chance.

`Script` is the policy as data: it can be sent to another process, and what its policy does can be cached.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from worldline.config import suggest
from worldline.types import Decision, InputError, Policy, Turn, World, uniform

Rule = Callable[[Turn], str | Mapping[str, float]]
"""The action of a turn, or the probability of each action that may be taken."""


def latest_first(turn: Turn) -> Iterator[str]:
    """All observations of an episode, the present one first."""
    yield turn.observation
    for exchange in reversed(turn.history):
        yield exchange.observation


@runtime_checkable
class Scripted(Protocol):
    """A world that has scripts."""

    name: str

    @property
    def scripts(self) -> Mapping[str, Rule]: ...

    def menu(self, turn: Turn) -> Sequence[str]: ...


@dataclass(frozen=True)
class Script:
    """A rule of a world by its name, and the share of steps at which an action of the menu is drawn uniformly."""

    rule: str
    chance: float = 0.0

    @property
    def identity(self) -> str:
        return repr(self)

    def load(self, world: World) -> Policy:
        if not isinstance(world, Scripted):
            raise InputError(f"script '{self.rule}': {world.name} has no scripted policies")
        if self.rule not in world.scripts:
            raise InputError(f"{world.name} has no script '{self.rule}'{suggest(self.rule, list(world.scripts))}")
        return ScriptedPolicy(world, self)


class ScriptedPolicy:
    """(1 - chance) of the rule and `chance` of the uniform policy over the world's menu."""

    def __init__(self, world: Scripted, script: Script) -> None:
        self.name = f"{script.rule}+chance{script.chance:g}" if script.chance else script.rule
        self._rule, self._menu, self._chance = world.scripts[script.rule], world.menu, script.chance

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._drawn(self.options(turn), turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        with np.errstate(divide="ignore"):
            return [
                np.log([options.get(action, 0.0) for action in scored])
                for turn, scored in zip(turns, actions, strict=True)
                for options in [self.options(turn)]
            ]

    def options(self, turn: Turn) -> dict[str, float]:
        """The probability of every action that it may take."""
        chosen = self._rule(turn)
        own = {chosen: 1.0} if isinstance(chosen, str) else chosen
        total = sum(own.values())
        options = {action: (1 - self._chance) * p / total for action, p in own.items()}
        menu = tuple(dict.fromkeys(self._menu(turn))) if self._chance else ()
        if self._chance and not menu:
            raise InputError(f"policy '{self.name}' acts by chance, and nothing is listed at step {turn.step}")
        for action in menu:
            options[action] = options.get(action, 0.0) + self._chance / len(menu)
        return {action: p for action, p in options.items() if p > 0}

    def _drawn(self, options: Mapping[str, float], turn: Turn) -> Decision:
        actions, draw = list(options), uniform(turn.seed, "script")
        for action in actions[:-1]:
            draw -= options[action]
            if draw < 0:
                break
        else:
            action = actions[-1]
        return Decision(action=action, response=action, logprob=float(np.log(options[action])))
