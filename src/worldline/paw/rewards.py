"""What training pays for an episode (PaW appendix A.1): success alone, the same in every world of a family.

The environment's own rewards stay in the log; where a family has a rule they are not what is optimised (WebShop's
partial scores, for one). The invalid-action penalty is kept apart, because it belongs to its row alone and never
enters the return that eq. 10 balances with. It is paid for every action that the world refuses, or, as verl-agent
has it, only for a response in which no action can be read (`Penalty`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from worldline.policies.prompts import Template
from worldline.types import Step, Trajectory, WorldlineError

Penalty = Literal["inadmissible", "format", "none"]
Penalised = Callable[[Step], bool]


def penalised(penalty: Penalty, template: Template, family: str) -> Penalised:
    """Which steps pay: those the world refused, those whose response has no action in it, or none."""
    match penalty:
        case "inadmissible":
            return lambda step: not step.valid
        case "format":
            return lambda step: not template.well_formed(step.response, family)
        case "none":
            return lambda step: False


@dataclass(frozen=True, slots=True)
class RewardRule:
    """`success` is paid once, at the end of a won episode; None: the environment's own rewards count."""

    success: float | None
    invalid: float
    max_return: float

    def rewards(self, trajectory: Trajectory) -> list[float]:
        """One reward per step; their sum is the episode's return R."""
        if self.success is None:
            rewards = [step.reward for step in trajectory.steps]
        else:
            rewards = [0.0] * len(trajectory)
            rewards[-1] = self.success if _won(trajectory) else 0.0
        if not all(map(math.isfinite, rewards)):
            raise WorldlineError(f"episode {trajectory.id} (task {trajectory.task_id}): the environment paid {rewards}")
        return rewards

    def penalties(self, trajectory: Trajectory, pays: Penalised = lambda step: not step.valid) -> list[float]:
        """What each step pays for an action the environment did not understand, or for having none."""
        return [self.invalid if pays(step) else 0.0 for step in trajectory.steps]


RULES = {
    "household": RewardRule(success=10.0, invalid=-0.1, max_return=10.0),
    "shop": RewardRule(success=10.0, invalid=-0.1, max_return=10.0),
    "search": RewardRule(success=1.0, invalid=-0.01, max_return=1.0),
}


def rule(family: str, max_return: float, invalid: float | None = None) -> RewardRule:
    """The family's rule; any other world pays its own rewards, and an invalid action costs 1 % of `max_return`.

    `invalid`: what an invalid action costs instead.
    """
    usual = RULES.get(family) or RewardRule(success=None, invalid=-0.01 * max_return, max_return=max_return)
    return usual if invalid is None else replace(usual, invalid=-invalid)


def _won(trajectory: Trajectory) -> bool:
    """A graded world (WebShop) is won at the full score only."""
    return trajectory.score == 1.0 if trajectory.score is not None else bool(trajectory.success)
