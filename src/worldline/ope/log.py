"""A log as flat arrays: steps of all episodes end to end, `offsets` says where each episode starts.

Nothing is padded. Everything that is one number per step has the shape `steps`, one per episode `episodes`; an episode
that has ended stays at reward 0 for ever, so a ragged log and its zero-padded copy mean the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np
import numpy.typing as npt

from worldline.types import InputError, Trajectory, WorldlineError, policy_label

Steps = Annotated[npt.NDArray[np.float64], "steps"]
Episodes = Annotated[npt.NDArray[np.float64], "episodes"]
Codes = Annotated[npt.NDArray[np.int64], "episodes"]
Matrix = Annotated[npt.NDArray[np.float64], "rows columns"]


LARGEST_REWARD = 1e100
"""Beyond this, sums of squares and products with importance weights do not fit a double."""


class RefusalError(WorldlineError):
    """Why an estimator gives no number on this evidence. Shown in the place of the number, never replaced by 0."""


@dataclass(frozen=True, eq=False)
class RaggedLog:
    """What was logged. `behaviour` is the log-probability of each action when it was taken; NaN where unknown."""

    rewards: Steps
    behaviour: Steps
    offsets: Annotated[npt.NDArray[np.int64], "episodes + 1"]
    tasks: Codes
    policies: Codes
    terminated: Annotated[npt.NDArray[np.bool_], "episodes"]
    task_names: tuple[str, ...] = ()
    policy_names: tuple[str, ...] = ()
    ids: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        if len(self.offsets) < 2:
            raise InputError("the log is empty: no episode to evaluate on")
        if not np.all(np.diff(self.offsets) > 0):
            raise InputError(f"{self.name(int(np.argmin(np.diff(self.offsets))))} has no steps: drop it from the log")
        bad = ~(np.abs(self.rewards) <= LARGEST_REWARD)
        if bad.any():
            where = int(np.flatnonzero(bad)[0])
            episode = int(np.searchsorted(self.offsets, where, side="right")) - 1
            step, reward = where - int(self.offsets[episode]) + 1, self.rewards[where]
            fault = f"too large (at most {LARGEST_REWARD:g})" if np.isfinite(reward) else "not a number"
            raise InputError(f"{self.name(episode)}, step {step}: reward is {reward}, {fault}")
        if np.any(self.behaviour > 1e-6):
            raise InputError(f"column 'logprob' holds {np.nanmax(self.behaviour):.3g}: a log-probability is at most 0")

    def name(self, episode: int) -> str:
        """How messages call this episode."""
        return f"episode '{self.ids[episode]}'" if self.ids else f"episode {episode}"

    @property
    def episodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def steps(self) -> int:
        return len(self.rewards)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        return self.offsets[:-1]

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Index of the last step of each episode."""
        return self.offsets[1:] - 1

    @cached_property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.diff(self.offsets)

    @cached_property
    def time(self) -> Annotated[npt.NDArray[np.int64], "steps"]:
        """t - 1: how many steps came before, in the same episode."""
        return np.arange(self.steps) - np.repeat(self.starts, self.lengths)

    @property
    def horizon(self) -> int:
        return int(self.lengths.max())

    def discounts(self, gamma: float) -> Steps:
        """gamma^(t-1) per step."""
        return np.power(gamma, np.arange(self.horizon))[self.time]

    def returns(self, gamma: float) -> Episodes:
        """G = sum_t gamma^(t-1) r_t."""
        return self.total(self.rewards if gamma == 1 else self.rewards * self.discounts(gamma))

    def total(self, x: Steps) -> Episodes:
        """Sum over the steps of each episode."""
        return np.add.reduceat(x, self.starts)

    def step_rows(self, episodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The steps of the chosen episodes, in that order."""
        lengths = self.lengths[episodes]
        ends = np.cumsum(lengths)
        shift: npt.NDArray[np.int64] = np.repeat(self.starts[episodes] - (ends - lengths), lengths)
        return np.arange(len(shift)) + shift

    def take(self, episodes: npt.NDArray[np.int64]) -> "RaggedLog":
        """The same log with these episodes only (repeats allowed)."""
        rows = self.step_rows(episodes)
        return RaggedLog(
            rewards=self.rewards[rows],
            behaviour=self.behaviour[rows],
            offsets=np.concatenate([[0], np.cumsum(self.lengths[episodes])]),
            tasks=self.tasks[episodes],
            policies=self.policies[episodes],
            terminated=self.terminated[episodes],
            task_names=self.task_names,
            policy_names=self.policy_names,
            ids=tuple(self.ids[i] for i in episodes) if self.ids else (),
        )


def ragged_log(trajectories: Iterable[Trajectory]) -> RaggedLog:
    """The arrays of a log; a duplicated episode id, an empty episode or a reward that is no number is an InputError."""
    trajectories = list(trajectories)
    ids = [trajectory.id for trajectory in trajectories]
    if len(set(ids)) < len(ids):
        twice = next(identity for position, identity in enumerate(ids) if identity in ids[:position])
        raise InputError(f"episode id '{twice}' occurs {ids.count(twice)} times: was a log folder given twice?")
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    tasks = coded([trajectory.task_id for trajectory in trajectories])
    policies = coded([policy_label(trajectory.policy, trajectory.epsilon) for trajectory in trajectories])
    return RaggedLog(
        rewards=np.array([step.reward for step in steps], dtype=np.float64),
        behaviour=np.array([np.nan if step.logprob is None else step.logprob for step in steps], dtype=np.float64),
        offsets=np.concatenate([[0], np.cumsum([len(t) for t in trajectories], dtype=np.int64)]),
        tasks=tasks.codes,
        policies=policies.codes,
        terminated=np.array([trajectory.terminated for trajectory in trajectories], dtype=np.bool_),
        task_names=tasks.names,
        policy_names=policies.names,
        ids=tuple(ids),
    )


@dataclass(frozen=True)
class Coded:
    """Names as small integers."""

    codes: Codes
    names: tuple[str, ...]


def coded(names: Sequence[str]) -> Coded:
    """`names` by their rank among the distinct ones."""
    distinct = sorted(set(names))
    index = {name: code for code, name in enumerate(distinct)}
    return Coded(np.array([index[name] for name in names], dtype=np.int64), tuple(distinct))


@dataclass(frozen=True, eq=False)
class Choices:
    """A distribution over the admissible actions of every step: a second ragged level.

    The actions of step i are `actions[offsets[i]:offsets[i + 1]]`, as codes into a table of action texts.
    """

    logprobs: Annotated[npt.NDArray[np.float64], "choices"]
    actions: Annotated[npt.NDArray[np.int64], "choices"]
    offsets: Annotated[npt.NDArray[np.int64], "steps + 1"]

    @cached_property
    def step(self) -> Annotated[npt.NDArray[np.int64], "choices"]:
        """To which step each choice belongs."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def mean(self, x: Annotated[npt.NDArray[np.float64], "choices"]) -> Steps:
        """sum_a pi(a|h) x(h, a): also where a step has no choices (0)."""
        sums: Steps = np.bincount(self.step, np.exp(self.logprobs) * x, minlength=len(self.offsets) - 1)  # type: ignore[assignment]  # float64 once it has weights
        return sums

    def take(self, steps: npt.NDArray[np.int64]) -> "Choices":
        """The choices of these steps only."""
        lengths = np.diff(self.offsets)[steps]
        ends = np.cumsum(lengths)
        shift: npt.NDArray[np.int64] = np.repeat(self.offsets[steps] - (ends - lengths), lengths)
        rows = np.arange(len(shift)) + shift
        return Choices(self.logprobs[rows], self.actions[rows], np.concatenate([[0], ends]))


@dataclass(frozen=True, eq=False)
class TargetLog:
    """What the evaluated policy says about a log: the log-probability of each logged action, and of its rivals."""

    logprobs: Steps
    choices: Choices | None = None

    def __post_init__(self) -> None:
        if np.any(np.isnan(self.logprobs)):
            raise InputError("target log-probabilities hold NaN: -inf is how a policy says 'never'")
        if np.any(self.logprobs > 1e-6):
            raise InputError(f"a target log-probability is {self.logprobs.max():.3g}: it can be at most 0")

    def take(self, steps: npt.NDArray[np.int64]) -> "TargetLog":
        """The same for these steps only."""
        return TargetLog(self.logprobs[steps], self.choices.take(steps) if self.choices else None)
