"""A world as TRL's `environment_factory` takes it: `reset` gives the task, the tool `act` plays it, and it is paid.

Rows of the data set name tasks, so that all rollouts of a group play the same one. Needs no TRL itself.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from worldline.types import Environment, World, derive_seed

OVER = "The episode is over."
"""What `act` answers after the end. The world does not say this: PaWTrainer does not teach it."""
_PROMPT = "Use the tool `act` to reach the goal, one action at a time."


class TrlEnvironment:
    """One rollout of one task."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._environment: Environment | None = None
        self._return, self._steps, self._over = 0.0, 0, True

    def reset(self, task: str, seed: int = 0, **row: Any) -> str:
        self._environment = self._world.make()
        self._return, self._steps, self._over = 0.0, 0, False
        observation, info = self._environment.reset(seed=seed, task=task)
        goal = info.get("goal", "")
        return f"\n{f'Goal: {goal}' if goal else ''}\n{observation}"

    def act(self, action: str) -> str:
        """Do one action in the environment.

        Args:
            action: The action, in words.

        Returns:
            What the environment answers.
        """
        if self._environment is None or self._over:
            return OVER
        observation, reward, terminated, truncated, _ = self._environment.step(action)
        self._return += reward
        self._steps += 1
        self._over = terminated or truncated or self._steps >= self._world.max_steps
        return observation

    def get_reward(self) -> float:
        return self._return


def environment_factory(world: World) -> Callable[[], TrlEnvironment]:
    """For `GRPOTrainer(environment_factory=...)`."""
    return functools.partial(TrlEnvironment, world)


def task_rows(world: World, split: str, tasks: Sequence[int], *, prompt: str = _PROMPT, seed: int = 0) -> list[Any]:
    """Rows of a training set, for `datasets.Dataset.from_list`: the first message, a task and its seed."""
    return [
        {
            "prompt": [{"role": "user", "content": prompt}],
            "task": world.get_task(split, index),
            "seed": derive_seed(seed, split, index),
        }
        for index in tasks
    ]
