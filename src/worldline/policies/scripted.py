"""Policies without a model: the environment's expert, uniform chance, and any function of a turn."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from worldline.policies.choice import admissible, uniform
from worldline.types import Decision, Turn, World

LogProbs = list[npt.NDArray[np.float64]]


class ExpertPolicy:
    """What the world's own expert does: deterministic, so its log-probabilities are 0 and -inf."""

    name = "expert"

    def __init__(self, world: World) -> None:
        self._world = world

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        actions = (self._world.expert(turn) for turn in turns)
        return [Decision(action=action, response=action, logprob=0.0) for action in actions]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> LogProbs:
        experts = (self._world.expert(turn) for turn in turns)
        return [
            np.array([0.0 if action == expert else -np.inf for action in asked])
            for expert, asked in zip(experts, actions, strict=True)
        ]


class RandomPolicy:
    """Uniform over the admissible actions."""

    def __init__(self, name: str = "random") -> None:
        self.name = name

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._draw(turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> LogProbs:
        return [uniform_logprobs(turn, asked, self.name) for turn, asked in zip(turns, actions, strict=True)]

    def _draw(self, turn: Turn) -> Decision:
        choices = admissible(turn, self.name)
        action = choices[int(uniform(turn.seed, "random") * len(choices))]
        return Decision(action=action, response=action, logprob=-float(np.log(len(choices))))


class FunctionPolicy:
    """A plain function from a turn to an action. Nothing is known about its probabilities."""

    def __init__(self, function: Callable[[Turn], str], name: str) -> None:
        self.name = name
        self._function = function

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        actions = (self._function(turn) for turn in turns)
        return [Decision(action=action, response=action) for action in actions]


def uniform_logprobs(turn: Turn, actions: Sequence[str], who: str) -> npt.NDArray[np.float64]:
    """log of 1/n for the n admissible actions, -inf for any other."""
    choices = frozenset(admissible(turn, who))
    return np.array([-np.log(len(choices)) if action in choices else -np.inf for action in actions])
