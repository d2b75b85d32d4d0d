"""Policies whose household values can be enumerated: they prefer, softly, actions that share words with the goal."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from worldline.policies.mixing import pick
from worldline.types import Decision, Trajectory, Turn, uniform

TASKS = range(8)
ZEALS = (0.6, 1.0, 1.6)
Write = Callable[[list[Trajectory]], Path]


class GoalSeeker:
    """pi(a|h) ~ exp(zeal * liking): taking and moving what the goal names is liked best, then going about."""

    def __init__(self, zeal: float, name: str = "") -> None:
        self.zeal = zeal
        self.name = name or f"seeker{zeal:g}"

    def probabilities(self, turn: Turn) -> Mapping[str, float]:
        return _chances(self.zeal, turn.goal, tuple(turn.admissible or ()))

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        decisions = []
        for turn in turns:
            chances = self.probabilities(turn)
            action = list(chances)[pick(list(chances.values()), uniform(turn.seed, "seek"))]
            decisions.append(Decision(action=action, response=action, logprob=float(np.log(chances[action]))))
        return decisions

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[np.ndarray]:
        with np.errstate(divide="ignore"):
            return [
                np.log([chances.get(action, 0.0) for action in options])
                for chances, options in zip(map(self.probabilities, turns), actions, strict=True)
            ]


@cache
def _chances(zeal: float, goal: str, admissible: tuple[str, ...]) -> Mapping[str, float]:
    actions = list(dict.fromkeys(admissible))
    named = {word.strip(".,") for word in goal.lower().split()} - {"to", "the", "one"}
    liking = [
        len(named & set(action.split())) if action.startswith(("take", "move")) else 0.5 * action.startswith("go")
        for action in actions
    ]
    weights = np.exp(zeal * np.array(liking))
    return dict(zip(actions, (weights / weights.sum()).tolist(), strict=True))
