"""The starts of `paw_alfworld.py`: demonstrations to clone, and the search for how many of them."""

import math
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from worldline import files, policies, store
from worldline.rollout import Episode, Rollout
from worldline.types import Decision, Policy, Turn, WorldlineError

MOST = 8
"""Clones that are tried."""


def searched(success: Callable[[int], float], first: int, window: tuple[float, float]) -> int:
    """The first number whose success lies in the window: doubled while below it, halved while above, then between."""
    below = above = 0
    number, tried = first, dict[int, float]()
    for _ in range(MOST):
        tried[number] = success(number)
        if window[0] <= tried[number] <= window[1]:
            return number
        below, above = (number, above) if tried[number] < window[0] else (below, number)
        number = round(math.sqrt(below * above)) if below and above else 2 * below or above // 2
        if number in (0, below, above):
            break
    raise WorldlineError(f"no clone with a success between {window[0]} and {window[1]}: {tried}")


def demonstrate(world: Any, folder: Path, count: int, walkthroughs: bool, longest: int | None = None) -> None:
    """The log of the first `count` train games that are won, by their walkthroughs or by the world's expert.

    Those won in more than `longest` steps do not count.
    """
    split = world.splits()[0]
    policy: Policy = Walkthrough(world.walkthrough) if walkthroughs else policies.load("expert", world)
    games = (
        Episode(f"demonstration-{index:06d}", world.get_task(split, index), split, seed=index)
        for index in range(world.num_tasks(split))
    )
    played = Rollout(world, policy, batch_size=1).play(games)
    wins = (game for game in played if game.success and (longest is None or len(game) <= longest))
    won = [*islice(wins, count)]
    if len(won) < count:
        within = f" in at most {longest} steps" if longest else ""
        raise WorldlineError(f"{world.name}: '{split}' has {len(won)} games that are won{within}, {count} are wanted")
    with files.replacing(folder) as partial, store.StoreWriter(partial) as writer:
        for game in won:
            writer.append(game)


class Walkthrough:
    """Plays the stored solution of each game."""

    name = "walkthrough"

    def __init__(self, solution: Callable[[str], Sequence[str]]) -> None:
        self._solution = solution

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        actions = [self._solution(turn.task)[turn.step] for turn in turns]
        return [Decision(action=action, response=action) for action in actions]
