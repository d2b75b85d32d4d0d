"""Environments in worker processes: a crash or a hang of one costs one episode, never the run.

Every process loads the world for itself and hosts many episodes. What was done in an episode is kept on this side:
when a process has to be replaced because of one episode, the others it hosted are replayed in the new one.
Left out: machines other than this one (that is Ray's work).
"""

import weakref
from collections.abc import Sequence
from typing import Any, Self

from worldline.envs.worker_process import EpisodeLostError, Interrupted, Recipe, WorkerProcess
from worldline.types import Info, LazyActions, StepResult, Turn, World, WorldlineError, lowest_return


class WorkerWorld:
    """A world whose episodes run in `workers` processes. `replaced` counts the processes that had to be.

    `world` is that of the recipe, where this process has it already.
    """

    def __init__(self, recipe: Recipe, workers: int, timeout: float = 120.0, world: World | None = None) -> None:
        self._take(recipe.world() if world is None else world)
        self._workers = [WorkerProcess(recipe, timeout) for _ in range(workers)]

    def _take(self, world: World) -> None:
        self._world = world
        self.name, self.version, self.family = world.name, world.version, world.family
        self.max_steps = world.max_steps
        self.max_return, self.min_return = world.max_return, lowest_return(world)

    def host(self, recipe: Recipe, world: World) -> None:
        """Host another world from now on, in the same processes. Episodes of the one before are gone."""
        self._take(world)
        for worker in self._workers:
            worker.host(recipe)

    def attributes(self, name: str) -> list[Any]:
        """An attribute of the world in each process."""
        return [worker.answer(worker.send(0, "attribute", name)) for worker in self._workers]

    @property
    def replaced(self) -> int:
        return sum(worker.generation for worker in self._workers)

    def splits(self) -> tuple[str, ...]:
        return self._world.splits()

    def num_tasks(self, split: str) -> int:
        return self._world.num_tasks(split)

    def get_task(self, split: str, index: int) -> str:
        return self._world.get_task(split, index)

    def make(self) -> "WorkerEnvironment":
        return WorkerEnvironment(min(self._workers, key=lambda worker: worker.hosted))

    def expert(self, turn: Turn) -> str:
        return self._world.expert(turn)

    def close(self) -> None:
        """End the processes; they also end with this one."""
        for worker in self._workers:
            worker.stop()


class WorkerEnvironment:
    """One episode in a worker process."""

    def __init__(self, worker: WorkerProcess) -> None:
        self._worker = worker
        self._id = worker.admit()
        self._generation = -1
        self._start: tuple[int | None, str | None] | None = None
        self._actions: list[str] = []
        self._observation = ""
        self._begun: tuple[str, int] | None = None
        weakref.finalize(self, worker.dismiss, self._id)

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        self._start, self._actions, self._begun = None, [], None
        observation, info, lazy = self._do("reset", seed, task)
        self._start, self._observation = (seed, task), observation
        return observation, self._listing(info) if lazy else info

    def begin(self, action: str) -> None:
        """Send `action` ahead, so that its process works on it until `step(action)` asks for the result."""
        if self._generation == self._worker.generation and self._worker.has_room(action):
            self._begun = action, self._worker.send(self._id, "step", action)

    def step(self, action: str) -> StepResult:
        observation, reward, terminated, truncated, info, lazy = self._result(action)
        self._actions.append(action)
        self._observation = observation
        return observation, reward, terminated, truncated, self._listing(info) if lazy else info

    def clone(self) -> Self:
        other = type(self)(self._worker)
        self._do("clone", other._id)
        other._generation, other._start = self._generation, self._start
        other._actions, other._observation = list(self._actions), self._observation
        return other

    def _result(self, action: str) -> Any:
        begun, self._begun = self._begun, None
        if begun is not None:
            if begun[0] != action:
                raise WorldlineError("step() got another action than begin()")
            try:
                return self._worker.answer(begun[1])
            except Interrupted:
                pass
        return self._do("step", action)

    def _do(self, verb: str, *arguments: Any) -> Any:
        while True:
            try:
                self._catch_up()
                return self._ask(verb, *arguments)
            except Interrupted:
                continue  # the process was replaced: try again in the new one

    def _ask(self, verb: str, *arguments: Any) -> Any:
        return self._worker.answer(self._worker.send(self._id, verb, *arguments))

    def _catch_up(self) -> None:
        """In a new process, play the episode again up to where it was."""
        if self._generation == self._worker.generation:
            return
        generation = self._worker.generation
        self._ask("make")
        if self._start is not None:
            observation = self._ask("reset", *self._start)[0]
            for action in self._actions:
                observation = self._ask("step", action)[0]
            if observation != self._observation:
                raise EpisodeLostError(
                    "the worker process was replaced, and replaying the episode came out differently"
                )
        self._generation = generation

    def _listing(self, info: Info) -> Info:
        """With a list that is as lazy here as in the process, and valid until the next step."""
        taken = len(self._actions)

        def listed() -> Sequence[str]:
            if len(self._actions) != taken:
                raise WorldlineError("the admissible list was read after a later step")
            actions: Sequence[str] = self._do("admissible")
            return actions

        return {**info, "admissible": LazyActions(listed)}
