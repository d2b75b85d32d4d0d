"""Rollout groups: several episodes of the same task, played by the current policy (Algorithm 1, line 2).

The tasks and random draws of an update depend on the seed and the update's number alone: tasks come in seeded shuffles
of the whole split, so a resumed run plays what an uninterrupted one would have played. Groups in which all episodes
have the same return teach a group-relative algorithm nothing; `refilled` plays others in their place.
"""

import functools
import random
from collections.abc import Callable, Iterator, Sequence
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

    def and_also(self, other: "Groups") -> "Groups":
        """Both, the other's after these; their numbers must differ."""
        return Groups(
            self.trajectories + other.trajectories,
            self.groups + other.groups,
            self.retried + other.retried,
            self.failed + other.failed,
        )

    def only(self, numbers: set[int]) -> "Groups":
        """Some of the groups; what went wrong stays counted."""
        kept = [(t, number) for t, number in zip(self.trajectories, self.groups, strict=True) if number in numbers]
        return Groups([t for t, _ in kept], [number for _, number in kept], self.retried, self.failed)


def varied(played: Groups, returns: Callable[[Trajectory], float]) -> list[int]:
    """The numbers of the groups whose episodes do not all have the same return, in order."""
    by_group: dict[int, set[float]] = {}
    for trajectory, number in zip(played.trajectories, played.groups, strict=True):
        by_group.setdefault(number, set()).add(returns(trajectory))
    return sorted(number for number, seen in by_group.items() if len(seen) > 1)


@dataclass(frozen=True, slots=True)
class Refilled:
    """What an update learns from, and all that was played for it."""

    kept: Groups
    played: Groups
    dropped: int
    """Groups without variance that were left out."""


def refilled(
    first: Groups, more: Callable[[int, int], Groups], returns: Callable[[Trajectory], float], wanted: int, rounds: int
) -> Refilled:
    """DAPO's dynamic sampling: groups without variance are dropped, others played in their place, `rounds` times.

    `more(number, count)` plays `count` new groups, numbered from `number` on. After the last round the update goes on
    with what there is; where no group at all varies, with the first ones as they are.
    """
    played, number = first, wanted
    for _ in range(rounds):
        missing = wanted - len(varied(played, returns))
        if missing <= 0:
            break
        played = played.and_also(more(number, missing))
        number += missing
    kept = varied(played, returns)[:wanted]
    if not kept:
        return Refilled(first, played, 0)
    return Refilled(played.only(set(kept)), played, len(set(played.groups)) - len(kept))


def plan_groups(world: World, split: str, update: int, groups: int, size: int, seed: int) -> list[Episode]:
    """`groups` times `size` episodes, group after group."""
    episodes = []
    for group in range(groups):
        task = _task(world, split, (update - 1) * groups + group, seed)
        episodes += _group(task, split, update, group, size, seed)
    return episodes


def plan_more_groups(
    world: World, split: str, update: int, number: int, count: int, size: int, seed: int
) -> list[Episode]:
    """`count` groups beyond those planned for the update, numbered from `number`; tasks of a shuffle of their own."""
    episodes = []
    for group in range(number, number + count):
        task = _task(world, split, group, derive_seed(seed, "refill", update))
        episodes += _group(task, split, update, group, size, seed)
    return episodes


def _group(task: str, split: str, update: int, group: int, size: int, seed: int) -> list[Episode]:
    return [
        Episode(
            f"{episode_prefix(update)}-{group:04d}-{member:03d}",
            task,
            split,
            derive_seed(seed, "train", update, group, member),
        )
        for member in range(size)
    ]


def episode_prefix(update: int) -> str:
    """The prefix of the ids of an update's training episodes."""
    return f"u{update:06d}"


def play(
    rollout: Rollout,
    episodes: list[Episode],
    size: int,
    accelerator: Any,
    *,
    first: int = 0,
    watch: Callable[[Iterator[Trajectory], int], Iterator[Trajectory]] = lambda played, planned: played,
) -> Groups:
    """Play `episodes`, dealt over the ranks; every rank gets all trajectories. Failed ones are left out.

    The groups are numbered from `first`; `watch` sees this rank's episodes as they end, and how many there will be.
    """
    share = episodes[accelerator.process_index :: accelerator.num_processes]
    own = list(watch(rollout.play(share), len(share)))
    played = {trajectory.id: trajectory for trajectory in gather_object(own)}
    order = [(number, episode.id) for number, episode in enumerate(episodes) if episode.id in played]
    return Groups(
        trajectories=[played[name] for _, name in order],
        groups=[first + number // size for number, _ in order],
        retried=sum(gather_object([rollout.retried])),
        failed=gather_object(list(rollout.failed)),
    )


def _task(world: World, split: str, place: int, seed: int) -> str:
    """The task at `place` of an endless series of shuffles of the split."""
    count = world.num_tasks(split)
    shuffle, index = divmod(place, count)
    return world.get_task(split, _order(count, derive_seed(seed, "tasks", split, shuffle))[index])


@functools.lru_cache(maxsize=4)
def _order(count: int, seed: int) -> Sequence[int]:
    """The numbers below `count` in a seeded order; cached, as every group of every update looks up one of them."""
    return random.Random(seed).sample(range(count), count)
