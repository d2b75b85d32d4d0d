"""The value of a policy by imagination, equation (10): one number per logged episode, for the common interval.

Every task of the log is played in the world model `rollouts` times; an episode's value is that of its task. Values
come back in the order of the log, so that tasks can be resampled and policies compared in pairs; rollouts of one task
differ by seed only, and that seed is the same for every policy. A policy that raises at what it is shown costs that
episode.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from worldline.adwm.ensemble import Ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.kernel_env import SPLIT, KernelWorld, Support
from worldline.adwm.kernel_workers import KernelWorkers
from worldline.adwm.world_model_env import Guide, ImaginedWorld
from worldline.rollout import Episode, Rollout
from worldline.types import Policy, Trajectory, World, WorldlineError, derive_seed

if TYPE_CHECKING:
    from worldline.policies.language_model.hf import HFPolicy

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
    ensemble: Ensemble,
    policy: Policy,
    *,
    config: ImaginationConfig = IMAGINATION_PRESETS["adwm"],
    starts: Sequence[Trajectory] | None = None,
    rollouts: int | None = None,
    gamma: float = 1.0,
    seed: int = 0,
    batch_size: int = 256,
    guide: Guide | None = None,
    watch: Watch = lambda trajectory: None,
) -> Imagined:
    """Play `policy` at every task of `starts`, `rollouts` times each."""
    starts = ensemble.episodes if starts is None else starts
    world = ImaginedWorld(ensemble, config, guide, starts)
    played = _played(world, policy, batch_size, starts, rollouts, gamma, seed, watch)
    return Imagined(
        played.values, _spread(ensemble, played), world.support, played.trajectories, played.lost, played.failure
    )


def imagine_kernel(
    ensemble: Ensemble,
    policy: Policy,
    *,
    bag: bool = False,
    starts: Sequence[Trajectory] | None = None,
    rollouts: int | None = None,
    gamma: float = 1.0,
    seed: int = 0,
    batch_size: int = 256,
    workers: KernelWorkers | None = None,
    watch: Watch = lambda trajectory: None,
) -> Imagined:
    """The same in the world of the kernel model (`wm`), which `workers` may share, or of the bag (`wm-bag`)."""
    starts = ensemble.episodes if starts is None else starts
    world = KernelWorld(ensemble.kernel, ensemble.facts, bag=bag, starts=starts)
    tasks = world.num_tasks(SPLIT)
    episodes = tasks * (rollouts or enough(tasks))
    shared = workers.shared(world, starts, episodes) if workers is not None and not bag else None
    played = _played(shared or world, policy, batch_size, starts, rollouts, gamma, seed, watch)
    support = workers.support() if workers is not None and shared is not None else world.support
    return Imagined(played.values, 0.0, support, played.trajectories, played.lost, played.failure)


def imagine_text(
    generator: "HFPolicy",
    ensemble: Ensemble,
    policy: Policy,
    *,
    temperature: float = 1.0,
    starts: Sequence[Trajectory] | None = None,
    rollouts: int | None = None,
    gamma: float = 1.0,
    seed: int = 0,
    batch_size: int = 256,
    watch: Watch = lambda trajectory: None,
) -> Imagined:
    """The same in a world whose observations the language model `generator` writes (`wm-text`)."""
    from worldline.adwm.rivals.language_model import TextWorld  # takes seconds: not for policies without a model

    starts = ensemble.episodes if starts is None else starts
    world = TextWorld(generator, ensemble, temperature, starts)
    played = _played(world, policy, batch_size, starts, rollouts, gamma, seed, watch)
    return Imagined(played.values, 0.0, Support(), played.trajectories, played.lost, played.failure)


@dataclass(frozen=True)
class _Played:
    """The episodes that were played, in the order of the plan, their returns, and the value of each start's task."""

    episodes: list[Episode]
    trajectories: list[Trajectory]
    returns: Array
    values: Array
    lost: float
    failure: str


def _played(
    world: World,
    policy: Policy,
    batch_size: int,
    starts: Sequence[Trajectory],
    rollouts: int | None,
    gamma: float,
    seed: int,
    watch: Watch,
) -> _Played:
    tasks = list(dict.fromkeys(start.task_id for start in starts))
    rollouts = rollouts or enough(len(tasks))
    wanted = [
        Episode(f"{number:06d}-{again}", task, "log", derive_seed(seed, "imagine", number, again))
        for number, task in enumerate(tasks)
        for again in range(rollouts)
    ]
    player = Rollout(world, policy, batch_size=batch_size, forgiving=True)
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
    of_starts = np.array([values[start.task_id] for start in starts])
    lost = 1 - len(ordered) / len(wanted)
    return _Played(episodes, ordered, returns, of_starts, lost, player.undecided[0] if player.undecided else "")


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


def _spread(ensemble: Ensemble, played: _Played) -> float:
    """Between-member standard deviation of the value, by the member each episode's seed fell to."""
    world = ImaginedWorld(ensemble)
    members = np.array([world.member_of(episode.seed) for episode in played.episodes])
    means = [played.returns[members == index].mean() for index in np.unique(members)]
    return float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
