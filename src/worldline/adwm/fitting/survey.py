"""One pass over a log before it is fitted: what it is, whether it can be fitted, and a few numbers of each episode.

The texts are let go. What stays is some forty bytes an episode, and the names of tasks and policies.
"""

import math
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.adwm.fitting.log_source import LogSource, Numbers, episodes_of
from worldline.adwm.fitting.step_budgets import StepBudgets
from worldline.adwm.model import LogFacts
from worldline.types import InputError, Trajectory, derive_seed

FEWEST = 8
"""Episodes that a world model can be fitted on."""


@dataclass(frozen=True)
class Survey:
    """A log by its numbers; arrays have one entry per episode, in the order of the log."""

    facts: LogFacts
    tasks: Numbers
    """Places in the sorted names of the tasks; below, in `facts.policies`."""
    policies: Numbers
    lengths: Numbers
    good: npt.NDArray[np.bool_]
    """Whether it succeeded, or was paid more than the least that its steps can pay."""
    notes: tuple[str, ...]
    """What is thin about the log."""

    @property
    def steps(self) -> int:
        return int(self.lengths.sum())

    def folds(self, most: int, seed: int, indexed: Numbers) -> Numbers:
        """A fold for each episode, at most so many: whole tasks together, or single episodes of a single task.

        Those of the indexed episodes are dealt first: each fold has its share of them.
        """
        units = self.tasks if self.tasks.max() > 0 else np.arange(len(self.tasks))
        order = np.random.default_rng(derive_seed(seed, "folds")).permutation(int(units.max()) + 1)
        there = np.isin(order, units[indexed])
        fold_of = np.empty(len(order), np.int64)
        fold_of[np.concatenate([order[there], order[~there]])] = np.arange(len(order)) % min(most, int(there.sum()))
        folds: Numbers = fold_of[units]
        return folds


def survey(source: LogSource, *, checked: bool = True) -> Survey:
    """Read the log once; InputError where no world model can be fitted on it, unless it is not to be checked."""
    episodes = sum(source.sizes)
    if checked and episodes < FEWEST:
        raise InputError(f"the log has {episodes} episode(s): a world model needs at least {FEWEST}")
    facts, tasks, policies = _Facts(), _Names(), _Names()
    lengths, returns, successes, ids = array("q"), array("d"), array("b"), array("Q")
    for episode in episodes_of(source):
        if checked:
            _refuse_broken(episode)
            ids.append(derive_seed(episode.id))
        facts.add(episode)
        tasks.add(episode.task_id)
        policies.add(episode.policy)
        lengths.append(len(episode))
        returns.append(episode.episode_return)
        successes.append(bool(episode.success))
    if checked and len(facts.worlds) > 1:
        raise InputError(
            f"the log mixes environments ({', '.join(sorted(facts.worlds))}): fit one world model for each"
        )
    _refuse_twice(source, np.array(ids))
    whole, many = facts.facts(policies), np.array(lengths, np.int64)
    above = np.array(returns) - many * whole.reward_low  # what is left if the least that a step can pay is paid at each
    return Survey(
        facts=whole,
        tasks=tasks.codes(),
        policies=policies.codes(),
        lengths=many,
        good=np.array(successes, np.bool_) | (above > 1e-9 * (whole.reward_high - whole.reward_low)),
        notes=tuple(facts.notes(tasks, any_good=any(successes) or max(returns) > 0)),
    )


def facts_of(episodes: Iterable[Trajectory]) -> LogFacts:
    """What the model must know of the log: names, horizon, range of rewards."""
    facts, policies = _Facts(), _Names()
    for episode in episodes:
        facts.add(episode)
        policies.add(episode.policy)
    return facts.facts(policies)


class _Names:
    """Names as numbers: first in the order they come, at last in their own."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._codes = array("q")

    def add(self, name: str) -> None:
        self._codes.append(self._numbers.setdefault(name, len(self._numbers)))

    def __len__(self) -> int:
        return len(self._numbers)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._numbers))

    def codes(self) -> Numbers:
        place = {name: at for at, name in enumerate(self.names())}
        return np.array([place[name] for name in self._numbers], np.int64)[np.array(self._codes, np.int64)]


class _Facts:
    """What episodes say of their log, one after the other."""

    def __init__(self) -> None:
        self.worlds: set[str] = set()
        self._first: Trajectory | None = None
        self._episodes = self._longest = 0
        self._budgets = StepBudgets()
        self._low, self._high = math.inf, -math.inf
        self._terminated = False

    def add(self, episode: Trajectory) -> None:
        self._first = self._first or episode
        self.worlds.add(episode.env)
        self._episodes += 1
        self._longest = max(self._longest, len(episode))
        self._budgets.add(episode)
        rewards = [step.reward for step in episode.steps]
        self._low, self._high = min(self._low, *rewards), max(self._high, *rewards)
        self._terminated = self._terminated or episode.terminated

    def facts(self, policies: _Names) -> LogFacts:
        assert self._first is not None
        low = min(0.0, self._low)
        return LogFacts(
            env=self._first.env,
            env_version=self._first.env_version,
            family=self._first.family,
            horizon=self._budgets.longest_cut or self._longest,
            budgets=self._budgets.by_task(),
            reward_low=low,
            reward_high=max(self._high, low + 1e-6),
            episodes=self._episodes,
            policies=policies.names(),
        )

    def notes(self, tasks: _Names, *, any_good: bool) -> list[str]:
        """What is thin about the log."""
        notes = []
        if len(tasks) == 1:
            notes.append("the log has one task only: the model cannot judge others, and held-out error is by episode")
        if not any_good:
            notes.append(
                "no episode of the log succeeds: the model cannot know what success takes, its values are near 0"
            )
        if not self._terminated:
            notes.append("no episode of the log was ended by the world: imagined ones only end with the step budget")
        return notes + self._budgets.notes()


def _refuse_broken(episode: Trajectory) -> None:
    if not episode.steps:
        raise InputError(f"episode {episode.id} has no steps: leave it out of the log")
    for at, step in enumerate(episode.steps):
        if not math.isfinite(step.reward):
            raise InputError(f"episode {episode.id}: the reward of step {at + 1} is {step.reward}")


def _refuse_twice(source: LogSource, hashes: npt.NDArray[np.uint64]) -> None:
    """Ids are compared by a hash; where two are equal, by themselves."""
    distinct, times = np.unique(hashes, return_counts=True)
    repeated = frozenset(distinct[times > 1].tolist())
    if not repeated:
        return
    ids = Counter(episode.id for episode in episodes_of(source) if derive_seed(episode.id) in repeated)
    twice = [name for name, count in ids.items() if count > 1]
    if twice:
        raise InputError(f"episode {twice[0]} is in the log twice: was a log folder given twice?")
