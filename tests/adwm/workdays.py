"""A log of a world that pays 1 a day and cuts a task's episodes at the days of its contract: every value is exact."""

import random
from collections.abc import Callable

from written_logs import Played, episode

from worldline.types import Trajectory

BUDGETS = {"short": 2, "middle": 4, "long": 6}
"""Days of each task, and what an episode of it is worth."""
ACTIONS = ("work", "rest")


def workdays(
    episodes: int = 4, *, days: Callable[[str, int], int] = lambda task, number: BUDGETS[task], success: bool = True
) -> list[Trajectory]:
    """Of each task so many episodes by chance, cut after `days` of task and number; kept contracts are a success."""
    rng = random.Random(0)
    return [
        episode(
            f"{task}-{number}",
            f"The {task} contract begins.",
            [Played(rng.choice(ACTIONS), f"Day {day + 1}.", 1.0, ACTIONS) for day in range(days(task, number))],
            task=task,
            goal=f"Keep the {task} contract.",
            listed=ACTIONS,
            ended=False,
            success=success,
        )
        for task in BUDGETS
        for number in range(episodes)
    ]
