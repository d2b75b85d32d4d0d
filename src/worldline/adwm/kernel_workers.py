"""Processes that share the answers of `wm`: each has the kernel model, and hosts some of the imagined episodes.

The policy stays where it is. What a step is answered takes far longer than to hand it over, and every draw is a
function of the episode's seed, so the values are those of one process.
"""

import pickle
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from worldline.adwm.kernel_env import KernelWorld, Support
from worldline.envs.worker_process import Recipe
from worldline.envs.workers import WorkerWorld
from worldline.kernel.model import KernelModel
from worldline.worker_pool import one_thread_each

LEAST_SHARED = 1000
"""Imagined steps, about, below which no other process is worth its start."""


class KernelWorkers:
    """`jobs` processes, begun when there is enough to do; they go from one imagined world to the next."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._hosting: WorkerWorld | None = None

    def shared(self, world: KernelWorld, episodes: int) -> WorkerWorld | None:
        """The same world in the processes; None where it is not worth it, or not the world of `wm`.

        `episodes` will be played.
        """
        steps = episodes * sum(map(len, world.episodes)) / max(1, len(world.episodes))
        of_wm = type(world) is KernelWorld and world.model is world.kernel
        if self.jobs == 1 or steps < LEAST_SHARED or not of_wm:
            return None
        model = world.kernel
        content = pickle.dumps((model.log.episodes, model.state_dict()))
        options = {"model": content, "facts": world.facts, "starts": world.episodes}
        recipe = Recipe(_hosted, world.name, options=options)
        if self._hosting is None:
            with one_thread_each():
                self._hosting = WorkerWorld(recipe, self.jobs, world=world)
        else:
            self._hosting.host(recipe, world)
        return self._hosting

    def support(self) -> Support:
        """How far the log supports what was imagined in the present world."""
        total = Support()
        for part in self._hosting.attributes("support") if self._hosting is not None else ():
            total.near.update(part.near)
            total.unsupported += part.unsupported
        return total

    def close(self) -> None:
        """End the processes; they also end with this one."""
        if self._hosting is not None:
            self._hosting.close()
            self._hosting = None


def _hosted(name: str, data: Path | None, options: Mapping[str, Any]) -> KernelWorld:
    return KernelWorld(_model_of(options["model"]), options["facts"], starts=options["starts"])


@lru_cache(maxsize=1)
def _model_of(content: bytes) -> KernelModel:
    episodes, weights = pickle.loads(content)
    model = KernelModel(episodes)
    model.load_state_dict(weights)
    return model.eval()
