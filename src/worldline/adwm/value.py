"""The value of a policy by imagination, equation (10): one number per logged episode, for the common interval.

Every task of the log is played in the world model `rollouts` times; an episode's value is that of its task. Values
come back in the order of the log, so that tasks can be resampled and policies compared in pairs; rollouts of one task
differ by seed only, and that seed is the same for every policy. A policy that raises at what it is shown costs that
episode.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.adwm.kernel_env import SPLIT, KernelWorld, Support
from worldline.adwm.kernel_workers import KernelWorkers
from worldline.rollout import Episode, Rollout
from worldline.types import Policy, Trajectory, WorldlineError, derive_seed

Array = npt.NDArray[np.float64]
Watch = Callable[[Trajectory], None]
ROLLOUTS = 512


@dataclass(frozen=True)
class Imagined:
    """A policy's imagined returns, and how far the log supports what was imagined."""

    values: Array
    """(episodes,), the mean over the rollouts of each one's task"""
    spread: float
    """Mean disagreement of the ensemble's members: the standard deviation between their means."""
    support: Support
    trajectories: list[Trajectory]
    lost: float = 0.0
    """The share of the episodes that the policy could not go on with; below, why it could not with the first."""
    failure: str = ""


def imagine(
    world: KernelWorld,
    policy: Policy,
    *,
    rollouts: int | None = None,
    gamma: float = 1.0,
    seed: int = 0,
    batch_size: int = 256,
    workers: KernelWorkers | None = None,
    watch: Watch = lambda trajectory: None,
) -> Imagined:
    """Play `policy` at every task of `world`, `rollouts` times each; `workers` may share the answers of `wm`."""
    tasks = list(dict.fromkeys(start.task_id for start in world.episodes))
    rollouts = rollouts or enough(len(tasks))
    wanted = [
        Episode(f"{number:06d}-{again}", task, SPLIT, derive_seed(seed, "imagine", number, again))
        for number, task in enumerate(tasks)
        for again in range(rollouts)
    ]
    shared = workers.shared(world, len(wanted)) if workers is not None else None
    player = Rollout(shared or world, policy, batch_size=batch_size, forgiving=True)
    trajectories: dict[str, Trajectory] = {}
    for trajectory in player.play(wanted):
        trajectories[trajectory.id] = trajectory
        watch(trajectory)
    if len(player.failed) > len(player.undecided):
        raise WorldlineError(f"{len(player.failed)} imagined episodes failed; the first: {player.failed[0]}")
    if not trajectories:
        place = f", at task {player.failing_task}" if player.failing_task else ""
        raise WorldlineError(f"policy '{policy.name}' failed in the world model{place}: {player.undecided[0]}")
    episodes = [episode for episode in wanted if episode.id in trajectories]
    ordered = [trajectories[episode.id] for episode in episodes]
    returns = np.array([discounted(trajectory, gamma) for trajectory in ordered])
    values = _values(tasks, [trajectory.task_id for trajectory in ordered], returns)
    return Imagined(
        np.array([values[start.task_id] for start in world.episodes]),
        _spread(returns, np.array([world.member_of(episode.seed) for episode in episodes])),
        workers.support() if workers is not None and shared is not None else world.support,
        ordered,
        1 - len(ordered) / len(wanted),
        player.undecided[0] if player.undecided else "",
    )


def _values(tasks: Sequence[str], played: Sequence[str], returns: Array) -> dict[str, float]:
    """The mean return of each task; of a task that lost all its episodes, that of the others."""
    of_task: dict[str, list[float]] = {}
    for task, value in zip(played, returns.tolist(), strict=True):
        of_task.setdefault(task, []).append(value)
    means = {task: float(np.mean(own)) for task, own in of_task.items()}
    return dict.fromkeys(tasks, float(np.mean([*means.values()]))) | means


def enough(tasks: int) -> int:
    """Rollouts of each task that make up ROLLOUTS in all."""
    return math.ceil(ROLLOUTS / tasks)


def discounted(trajectory: Trajectory, gamma: float) -> float:
    """sum_t gamma^(t-1) r_t."""
    return float(sum(gamma**at * step.reward for at, step in enumerate(trajectory.steps)))


def _spread(returns: Array, members: npt.NDArray[np.int64]) -> float:
    """Between-member standard deviation of the value, by the member that imagined each episode."""
    means = [returns[members == index].mean() for index in np.unique(members)]
    return float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
