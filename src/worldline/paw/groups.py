"""Rollout groups: several episodes of the same task, played by the current policy (Algorithm 1, line 2).

The tasks and random draws of an update depend on the seed and the update's number alone: tasks come in seeded shuffles
of the whole split, so a resumed run plays what an uninterrupted one would have played.
"""

import random
from dataclasses import dataclass
from typing import Any

from accelerate.utils import gather_object

from worldline.rollout import Episode, Rollout
from worldline.types import Trajectory, World, derive_seed


@dataclass(frozen=True, slots=True)
class Groups:
    """The played trajectories in planned order, and the group number of each."""

    trajectories: list[Trajectory]
    groups: list[int]
    retried: int
    failed: list[str]


def plan_groups(world: World, split: str, update: int, groups: int, size: int, seed: int) -> list[Episode]:
    """`groups` times `size` episodes, group after group."""
    episodes = []
    for group in range(groups):
        task = _task(world, split, (update - 1) * groups + group, seed)
        for member in range(size):
            name = f"{episode_prefix(update)}-{group:04d}-{member:03d}"
            episodes.append(Episode(name, task, split, derive_seed(seed, "train", update, group, member)))
    return episodes


def episode_prefix(update: int) -> str:
    """The prefix of the ids of an update's training episodes."""
    return f"u{update:06d}"


def play(rollout: Rollout, episodes: list[Episode], size: int, accelerator: Any) -> Groups:
    """Play `episodes`, dealt over the ranks; every rank gets all trajectories. Failed ones are left out."""
    share = episodes[accelerator.process_index :: accelerator.num_processes]
    own = list(rollout.play(share))
    played = {trajectory.id: trajectory for trajectory in gather_object(own)}
    order = [(number, episode.id) for number, episode in enumerate(episodes) if episode.id in played]
    return Groups(
        trajectories=[played[name] for _, name in order],
        groups=[number // size for number, _ in order],
        retried=sum(gather_object([rollout.retried])),
        failed=gather_object(list(rollout.failed)),
    )


def _task(world: World, split: str, place: int, seed: int) -> str:
    """The task at `place` of an endless series of shuffles of the split."""
    count = world.num_tasks(split)
    shuffle, index = divmod(place, count)
    order = random.Random(derive_seed(seed, "tasks", split, shuffle)).sample(range(count), count)
    return world.get_task(split, order[index])
