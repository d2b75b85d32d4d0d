"""The transition pool of one update: all steps of all groups, side by side (PaW section 3.1, Algorithm 1 line 3)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from worldline.paw.rewards import Penalised, RewardRule
from worldline.paw.rows import StepRow
from worldline.types import Step, Trajectory


@dataclass(frozen=True, slots=True)
class Pool:
    """Rows come trajectory after trajectory, in time order; groups are numbered from 0."""

    rows: list[StepRow]
    steps: list[Step]
    rewards: Tensor  # (rows,) of the training rule
    penalties: Tensor  # (rows,) for invalid actions
    trajectory: Tensor  # (rows,)
    episode_returns: Tensor  # (trajectories,) without penalties
    episode_groups: Tensor  # (trajectories,)
    max_return: float

    @property
    def returns(self) -> Tensor:  # (rows,)
        """The episode's return on every row of it."""
        return self.episode_returns[self.trajectory]

    @property
    def groups(self) -> Tensor:  # (rows,)
        return self.episode_groups[self.trajectory]

    @property
    def lengths(self) -> Tensor:  # (rows,)
        """Response tokens of each row."""
        return torch.tensor([len(row.response) for row in self.rows])

    @property
    def sampled_logprobs(self) -> Tensor:  # (actions,)
        """What the sampler gave each response token, row after row."""
        return torch.tensor([value for step in self.steps for value in step.token_logprobs or ()])


def to_pool(
    rows: list[StepRow],
    trajectories: Sequence[Trajectory],
    groups: Sequence[int],
    rule: RewardRule,
    pays: Penalised = lambda step: not step.valid,
) -> Pool:
    """`groups` labels each trajectory: those of one task, collected together, share a label. `pays`: see `rewards`."""
    rewards = [reward for trajectory in trajectories for reward in rule.rewards(trajectory)]
    penalties = [penalty for trajectory in trajectories for penalty in rule.penalties(trajectory, pays)]
    owner = torch.tensor([row.trajectory for row in rows])
    paid = torch.tensor(rewards, dtype=torch.float64)
    return Pool(
        rows=rows,
        steps=[step for trajectory in trajectories for step in trajectory.steps],
        rewards=paid,
        penalties=torch.tensor(penalties, dtype=torch.float64),
        trajectory=owner,
        episode_returns=torch.zeros(len(trajectories), dtype=torch.float64).index_add_(0, owner, paid),
        episode_groups=torch.unique(torch.tensor(groups), return_inverse=True)[1],
        max_return=rule.max_return,
    )
