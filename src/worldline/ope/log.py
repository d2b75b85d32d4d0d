"""A log as flat arrays: steps of all episodes end to end, `offsets` says where each episode starts.

Nothing is padded. Everything that is one number per step has the shape `steps`, one per episode `episodes`; an episode
that has ended stays at reward 0 for ever, so a ragged log and its zero-padded copy mean the same.

What weights are made of is computed block by block (`each_step`, `each_episode`), so that the arrays of a large log may
lie on disk: `scratch` says where. A log of one block is computed whole.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from worldline.ope.names import chosen, coded
from worldline.ope.scratch import Scratch
from worldline.types import LARGEST_REWARD, InputError, Trajectory, WorldlineError, policy_label

Steps = Annotated[npt.NDArray[np.float64], "steps"]
Episodes = Annotated[npt.NDArray[np.float64], "episodes"]
Codes = Annotated[npt.NDArray[np.int64], "episodes"]
Matrix = Annotated[npt.NDArray[np.float64], "rows columns"]


BLOCK = 1 << 16
"""Steps that are worked on at once, or one episode if that has more."""


class RefusalError(WorldlineError):
    """Why an estimator gives no number on this evidence. Shown in the place of the number, never replaced by 0."""


class LogPart(NamedTuple):
    """Some episodes of a log, end to end, as a log of their own, and where in the whole they are."""

    log: "RaggedLog"
    steps: slice
    episodes: slice


@dataclass(frozen=True, eq=False)
class RaggedLog:
    """What was logged. `behaviour` is the log-probability of each action when it was taken; NaN where unknown."""

    rewards: Steps
    behaviour: Steps
    offsets: Annotated[npt.NDArray[np.int64], "episodes + 1"]
    tasks: Codes
    policies: Codes
    terminated: Annotated[npt.NDArray[np.bool_], "episodes"]
    task_names: Sequence[str] = ()
    policy_names: tuple[str, ...] = ()
    ids: Sequence[str] = field(default=(), repr=False)
    scratch: Scratch | None = field(default=None, repr=False)
    """Where arrays of one number per step are kept; None: in memory."""
    checked: bool = field(default=False, repr=False)
    """Whether these numbers were checked before, as those of a part of a log were."""

    def __post_init__(self) -> None:
        if self.checked:
            return
        if len(self.offsets) < 2:
            raise InputError("the log is empty: no episode to evaluate on")
        if not np.all(np.diff(self.offsets) > 0):
            raise InputError(f"{self.name(int(np.argmin(np.diff(self.offsets))))} has no steps: drop it from the log")
        for first in range(0, self.steps, BLOCK):
            part = slice(first, first + BLOCK)
            bad = ~(np.abs(self.rewards[part]) <= LARGEST_REWARD)
            if bad.any():
                self._refuse_reward(first + int(np.flatnonzero(bad)[0]))
            if np.any(self.behaviour[part] > 1e-6):
                most = np.nanmax(self.behaviour)
                raise InputError(f"column 'logprob' holds {most:.3g}: a log-probability is at most 0")
            self.release()

    def _refuse_reward(self, where: int) -> None:
        episode = int(np.searchsorted(self.offsets, where, side="right")) - 1
        step, reward = where - int(self.offsets[episode]) + 1, self.rewards[where]
        fault = f"too large (at most {LARGEST_REWARD:g})" if np.isfinite(reward) else "not a number"
        raise InputError(f"{self.name(episode)}, step {step}: reward is {reward}, {fault}")

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
        return self.each_episode(
            lambda part, _: part.total(part.rewards if gamma == 1 else part.rewards * part.discounts(gamma))
        )

    def total(self, x: Steps) -> Episodes:
        """Sum over the steps of each episode."""
        return np.add.reduceat(x, self.starts)

    def last(self, x: Steps) -> Episodes:
        """x at the last step of each episode."""
        return self.each_episode(lambda part, steps: x[steps][part.ends])

    def blocks(self) -> Iterator[LogPart]:
        """The log in parts of about `BLOCK` steps, in order; one part if it is small."""
        if self.steps <= BLOCK:
            yield LogPart(self, slice(0, self.steps), slice(0, self.episodes))
        elif self.scratch is None:
            yield from self._parts
        else:
            for part in self._cut():
                yield part
                self.release()

    @cached_property
    def _parts(self) -> list[LogPart]:
        """Of a log in memory, where what a part has computed may stay."""
        return list(self._cut())

    def _cut(self) -> Iterator[LogPart]:
        first = 0
        while first < self.episodes:
            fitting = int(np.searchsorted(self.offsets, self.offsets[first] + BLOCK, side="right")) - 1
            after = max(first + 1, fitting)
            steps, episodes = slice(int(self.offsets[first]), int(self.offsets[after])), slice(first, after)
            part = RaggedLog(
                rewards=self.rewards[steps],
                behaviour=self.behaviour[steps],
                offsets=self.offsets[first : after + 1] - self.offsets[first],
                tasks=self.tasks[episodes],
                policies=self.policies[episodes],
                terminated=self.terminated[episodes],
                policy_names=self.policy_names,
                checked=True,
            )
            yield LogPart(part, steps, episodes)
            first = after

    def each_step(self, compute: Callable[["RaggedLog", slice], Steps]) -> Steps:
        """One number per step, `compute` of every part of the log and where its steps are."""
        if self.steps <= BLOCK:
            return compute(self, slice(0, self.steps))
        result = np.empty(self.steps) if self.scratch is None else self.scratch.empty(self.steps)
        for part, steps, _ in self.blocks():
            result[steps] = compute(part, steps)
        return result

    def each_episode(self, compute: Callable[["RaggedLog", slice], Episodes]) -> Episodes:
        """One number per episode, `compute` of every part of the log and where its steps are."""
        if self.steps <= BLOCK:
            return compute(self, slice(0, self.steps))
        result = np.empty(self.episodes)
        for part, steps, episodes in self.blocks():
            result[episodes] = compute(part, steps)
        return result

    def summed(self, compute: Callable[["RaggedLog", slice], npt.ArrayLike]) -> npt.NDArray[np.float64]:
        """`compute` of every part of the log and where its steps are, added up."""
        total = None
        for part, steps, _ in self.blocks():
            added = np.asarray(compute(part, steps), dtype=np.float64)
            total = added if total is None else total + added
        assert total is not None
        return total

    def stored(self, values: Episodes) -> Episodes:
        """`values`, on disk where the log is."""
        return values if self.scratch is None else self.scratch.stored(values)

    def release(self) -> None:
        """Give memory of arrays on disk back."""
        if self.scratch is not None:
            self.scratch.release()

    def step_rows(self, episodes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The steps of the chosen episodes, in that order."""
        lengths = self.lengths[episodes]
        ends = np.cumsum(lengths)
        shift: npt.NDArray[np.int64] = np.repeat(self.starts[episodes] - (ends - lengths), lengths)
        return np.arange(len(shift)) + shift

    def gather(self, x: Steps, episodes: npt.NDArray[np.int64]) -> Steps:
        """x at the steps of the chosen episodes, in that order."""
        lengths = self.lengths[episodes]
        count = int(lengths.sum())
        if count <= BLOCK:
            return x[self.step_rows(episodes)]
        result = np.empty(count) if self.scratch is None else self.scratch.empty(count)
        ends = np.cumsum(lengths)
        first = done = 0
        while first < len(episodes):
            after = max(first + 1, int(np.searchsorted(ends, done + BLOCK, side="right")))
            result[done : ends[after - 1]] = x[self.step_rows(episodes[first:after])]
            self.release()
            first, done = after, int(ends[after - 1])
        return result

    def take(self, episodes: npt.NDArray[np.int64]) -> "RaggedLog":
        """The same log with these episodes only (repeats allowed)."""
        if len(episodes) == self.episodes and np.array_equal(episodes, np.arange(self.episodes)):
            return self
        return replace(
            self,
            rewards=self.gather(self.rewards, episodes),
            behaviour=self.gather(self.behaviour, episodes),
            offsets=np.concatenate([[0], np.cumsum(self.lengths[episodes])]),
            tasks=self.tasks[episodes],
            policies=self.policies[episodes],
            terminated=self.terminated[episodes],
            ids=chosen(self.ids, episodes),
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
        policy_names=tuple(policies.names),
        ids=tuple(ids),
    )


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
        for first in range(0, len(self.logprobs), BLOCK):
            part = self.logprobs[first : first + BLOCK]
            if np.any(np.isnan(part)):
                raise InputError("target log-probabilities hold NaN: -inf is how a policy says 'never'")
            if np.any(part > 1e-6):
                raise InputError(f"a target log-probability is {part.max():.3g}: it can be at most 0")

    def of(self, log: RaggedLog, episodes: npt.NDArray[np.int64]) -> "TargetLog":
        """The same for these episodes of the log only."""
        choices = self.choices.take(log.step_rows(episodes)) if self.choices else None
        return TargetLog(log.gather(self.logprobs, episodes), choices)
