"""The value of a policy by imagination, equation (10): one number per logged episode, for the common interval.

Every task of the log is played in the world model `rollouts` times; an episode's value is that of its task. Values
come back in the order of the log, so that tasks can be resampled and policies compared in pairs; rollouts of one task
differ by seed only, and that seed is the same for every policy.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from worldline.adwm.ensemble import Ensemble
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.adwm.kernel_env import KernelWorld
from worldline.adwm.log_world import Support
from worldline.adwm.world_model_env import Guide, ImaginedWorld
from worldline.rollout import Episode, Rollout
from worldline.types import InputError, Policy, Trajectory, WorldlineError, derive_seed
from worldline.user_module import error_text, is_of_the_machine

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
    player = Rollout(world, policy, batch_size=batch_size)
    played = _played(player, starts, rollouts, gamma, seed, watch)
    return Imagined(played.values, _spread(ensemble, played), world.support, played.trajectories)


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
    watch: Watch = lambda trajectory: None,
) -> Imagined:
    """The same in the world of the kernel model (`wm`), or of the bag (`wm-bag`)."""
    starts = ensemble.episodes if starts is None else starts
    world = KernelWorld(ensemble.kernel, ensemble.facts, bag=bag, starts=starts)
    played = _played(Rollout(world, policy, batch_size=batch_size), starts, rollouts, gamma, seed, watch)
    return Imagined(played.values, 0.0, world.support, played.trajectories)


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
    player = Rollout(world, policy, batch_size=batch_size)
    played = _played(player, starts, rollouts, gamma, seed, watch)
    return Imagined(played.values, 0.0, Support(), played.trajectories)


@dataclass(frozen=True)
class _Played:
    """Episodes in the order they were planned, their returns, and the value of each start's task."""

    episodes: list[Episode]
    trajectories: list[Trajectory]
    returns: Array
    values: Array


def _played(
    player: Rollout, starts: Sequence[Trajectory], rollouts: int | None, gamma: float, seed: int, watch: Watch
) -> _Played:
    tasks = list(dict.fromkeys(start.task_id for start in starts))
    rollouts = rollouts or enough(len(tasks))
    wanted = [
        Episode(f"{number:06d}-{again}", task, "log", derive_seed(seed, "imagine", number, again))
        for number, task in enumerate(tasks)
        for again in range(rollouts)
    ]
    trajectories: dict[str, Trajectory] = {}
    for trajectory in _guarded(player, wanted):
        trajectories[trajectory.id] = trajectory
        watch(trajectory)
    if player.failed:
        raise WorldlineError(f"{len(player.failed)} imagined episodes failed; the first: {player.failed[0]}")
    ordered = [trajectories[episode.id] for episode in wanted]
    returns = np.array([discounted(trajectory, gamma) for trajectory in ordered])
    of_task = dict(zip(tasks, returns.reshape(-1, rollouts).mean(1), strict=True))
    return _Played(wanted, ordered, returns, np.array([of_task[start.task_id] for start in starts]))


def _guarded(player: Rollout, episodes: Sequence[Episode]) -> Iterator[Trajectory]:
    """The rollout's trajectories. Only a policy ends a rollout by raising: that is one line, and no bug of ours."""
    try:
        yield from player.play(episodes)
    except WorldlineError:
        raise
    except (Exception, SystemExit) as error:
        if is_of_the_machine(error):
            raise
        line = f"failed in the world model: {error_text(error)}: `act(turns)` must return a Decision for every turn"
        raise InputError(f"policy '{player.name}' {line}") from error


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
