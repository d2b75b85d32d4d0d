"""Demonstrations: an expert's episodes, with blunders thrown in that the learner sees but does not learn.

An expert never errs, so its clone never sees how to recover, and one slip ruins the episode. Here some steps are taken
by chance (half of them admissible, half nonsense that the world refuses), and the expert goes on from there: noise
injection as in DART (Laskey et al. 2017).
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from worldline.rollout import Episode, Rollout
from worldline.types import Decision, Trajectory, Turn, World, WorldlineError, derive_seed, turns, uniform
from worldline.user_module import error_text


@dataclass(frozen=True)
class Demonstration:
    """An episode, and which of its actions are worth learning."""

    episode: Trajectory
    learned: tuple[bool, ...]


def of_log(episode: Trajectory) -> Demonstration:
    """All actions of a logged episode."""
    return Demonstration(episode, (True,) * len(episode))


def drawn(demonstrations: Iterable[Demonstration], most: int, seed: int) -> list[Demonstration]:
    """All of them or, where there are more than `most`, that many drawn over the whole log; in the log's order."""

    def lot(numbered: tuple[int, Demonstration]) -> int:
        return derive_seed(seed, "demonstration", numbered[1].episode.id)

    chosen = heapq.nsmallest(most, enumerate(demonstrations), key=lot)
    return [demonstration for _, demonstration in sorted(chosen, key=lambda numbered: numbered[0])]


def of_expert(
    world: World,
    episodes: Sequence[Episode],
    noise: float,
    failed: list[str] | None = None,
    lost: list[str] | None = None,
) -> Iterator[Demonstration]:
    """The expert's episodes that end well; what it would not have done itself is not learned.

    Episodes that the environment could not play are named in `failed`, those that did not end well in `lost`.
    """
    player = Rollout(world, Blundering(world, noise), failed=[] if failed is None else failed)
    try:
        for episode in player.play(episodes):
            if episode.success:
                own = (world.expert(turn) for turn in turns(episode)) if noise else (s.action for s in episode.steps)
                yield Demonstration(episode, tuple(a == s.action for a, s in zip(own, episode.steps, strict=True)))
            elif lost is not None:
                lost.append(episode.id)
    except WorldlineError:
        raise
    except (Exception, SystemExit) as error:
        raise WorldlineError(f"the expert of {world.name} failed: {error_text(error)}") from error


class Blundering:
    """The world's expert, but with probability `noise` a step is taken by chance."""

    name = "blundering expert"

    def __init__(self, world: World, noise: float) -> None:
        self._world, self._noise = world, noise

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        actions = map(self._action, turns)
        return [Decision(action=action, response=action) for action in actions]

    def _action(self, turn: Turn) -> str:
        if uniform(turn.seed, "noise") < self._noise and turn.admissible:
            return _blunder(turn, turn.admissible)
        return self._world.expert(turn)


def _blunder(turn: Turn, admissible: Sequence[str]) -> str:
    one, other = (admissible[int(uniform(turn.seed, which) * len(admissible))] for which in ("one", "other"))
    if uniform(turn.seed, "sense") < 0.5:
        return one
    head, tail = one.split(), other.split()
    return " ".join([*head[: (len(head) + 1) // 2], *tail[len(tail) // 2 :]])
