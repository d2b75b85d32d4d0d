"""Scripted agents for ScienceWorld in `adwm_real.py`: they know a solution, and follow it as well as they are skilled.

A step that does not follow the solution wastes time (looks, repeats itself), runs ahead (takes a later step first), or
is rash (focuses on something that is in sight, which ends most tasks). They read no list of actions. Their
probabilities are exact.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from worldline.policies.mixing import pick
from worldline.types import Decision, Policy, Turn, World, uniform

IN_SIGHT = re.compile(r"^\t(?:an?|the) (?:substance called )?([a-z ]+)", re.MULTILINE)
IDLE = ("look around", "inventory")


@dataclass(frozen=True)
class Scientist:
    """How an agent works, as data; a `PolicySource`."""

    skill: float
    """Chance to do what the solution does next."""
    idle: float = 1.0
    ahead: float = 1.0
    rash: float = 0.0
    """How often it does each instead: weights."""
    epsilon: float = 0.0
    """Share of steps at which it does any of these, whatever its skill and weights."""

    @property
    def identity(self) -> str:
        return repr(self)

    def load(self, world: World) -> Policy:
        return SciencePolicy(world, self)


class SciencePolicy:
    """Plays a `Scientist`."""

    def __init__(self, world: Any, scientist: Scientist) -> None:
        self._world, self._scientist, self.name = world, scientist, f"{scientist}"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._drawn(turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        with np.errstate(divide="ignore"):
            return [
                np.log([options.get(action, 0.0) for action in scored])
                for turn, scored in zip(turns, actions, strict=True)
                for options in [self.options(turn)]
            ]

    def _drawn(self, turn: Turn) -> Decision:
        options = self.options(turn)
        chances = list(options.values())
        chosen = pick(chances, uniform(turn.seed, "scientist"))
        action = list(options)[chosen]
        return Decision(action=action, response=action, logprob=float(np.log(chances[chosen])))

    def options(self, turn: Turn) -> dict[str, float]:
        """The probability of every action that has any."""
        scientist, following = self._scientist, self._world.expert(turn)
        others = self._others(turn)
        weights = {"idle": scientist.idle, "ahead": scientist.ahead, "rash": scientist.rash}
        weight = sum(weights[kind] for kind, actions in others.items() if actions)
        everything = [action for actions in others.values() for action in actions]
        skill = scientist.skill if weight else 1.0
        options = {following: skill}
        for kind, actions in others.items():
            for action in actions:
                chance = (1 - skill) * weights[kind] / weight / len(actions) if weight else 0.0
                options[action] = options.get(action, 0.0) + chance
        mixed = {action: (1 - scientist.epsilon) * chance for action, chance in options.items()}
        for action in everything:
            mixed[action] += scientist.epsilon / len(everything)
        return {action: chance for action, chance in mixed.items() if chance > 0}

    def _others(self, turn: Turn) -> dict[str, list[str]]:
        """What it might do instead, by kind."""
        past = [exchange.action for exchange in turn.history]
        left = list(self._world.solution(turn.task))
        for action in past:
            if left and action == left[0]:
                left.pop(0)
        seen = [turn.observation, *(exchange.observation for exchange in reversed(turn.history))]
        room = next((text for text in seen if "you see:" in text), "")
        return {
            "idle": list(dict.fromkeys((*IDLE, *past[-2:]))),
            "ahead": list(dict.fromkeys(left[1:4])),
            "rash": [
                f"focus on {thing.strip()}" for thing in dict.fromkeys(IN_SIGHT.findall(room)) if thing != "agent"
            ],
        }
