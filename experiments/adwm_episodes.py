"""What `adwm_real.py` keeps of episodes: of real ones, and of imagined ones that are played again in truth."""

from typing import Any

import numpy as np

from worldline.types import Trajectory, World


def summary(episodes: list[Trajectory]) -> dict[str, Any]:
    """What is kept of played episodes."""
    returns = np.array([episode.episode_return for episode in episodes])
    return {
        "value": float(returns.mean()),
        "error": float(returns.std(ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else None,
        "success": float(np.mean([bool(episode.success) for episode in episodes])),
        "episodes": len(episodes),
        "length": float(np.mean([len(episode) for episode in episodes])),
        "invalid": float(np.mean([not step.valid for episode in episodes for step in episode.steps])),
        "returns": [[episode.task_id, episode.episode_return] for episode in episodes],
    }


def consistency(world: World, imagined: list[Trajectory]) -> dict[str, Any]:
    """How many imagined successes there are, and how many of them succeed when their actions are played in truth."""
    won = [episode for episode in imagined if episode.success]
    environment = world.make()
    real = 0
    for episode in won:
        environment.reset(task=episode.task_id, seed=episode.seed)
        for step in episode.steps:
            _, _, terminated, truncated, info = environment.step(step.action)
            if terminated or truncated:
                real += bool(info.get("won"))
                break
    return {"imagined_successes": len(won), "real_successes": real}
