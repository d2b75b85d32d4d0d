"""Playing an episode by hand, for the tests of this folder."""

from collections.abc import Callable

from worldline.envs.household.environment import HouseholdEnvironment
from worldline.types import Exchange, Turn


def play(env: HouseholdEnvironment, task: str, policy: Callable[[Turn], str]) -> tuple[float, list[Exchange]]:
    """The episode's return, and what was seen and done."""
    observation, info = env.reset(task=task)
    history: list[Exchange] = []
    total, over = 0.0, False
    while not over:
        action = policy(Turn("household", info["goal"], observation, info["admissible"], tuple(history)))
        history.append(Exchange(observation, action))
        observation, reward, terminated, truncated, info = env.step(action)
        total += reward
        over = terminated or truncated
    return total, history
