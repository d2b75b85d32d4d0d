"""Worlds that go on from the starts of a log, all waiting episodes in one batch, and how far the log supports them.

What comes after a start is made up by `world_model_env` with a diffusion model, by `kernel_env` with a kernel over the
log's steps, by `rivals.language_model` in words.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from worldline.adwm.logged_success import LoggedSuccess
from worldline.adwm.model import LogFacts
from worldline.types import Info, InputError, StepResult, Trajectory, Turn, WorldlineError, uniform

SPLIT = "log"


class LogWorld(ABC):
    """A world whose episodes begin as those of a log, or those of `starts`. `kind` says how it makes up the rest."""

    def __init__(
        self,
        kind: str,
        facts: LogFacts,
        episodes: Sequence[Trajectory],
        starts: Sequence[Trajectory] | None,
        *,
        lists: bool,
    ) -> None:
        self.facts, self.lists = facts, lists
        self.name, self.version, self.family = f"{kind}:{facts.env}", facts.env_version, facts.family
        self.max_steps = facts.horizon
        self.logged_success = LoggedSuccess(episodes)
        returns = [episode.episode_return for episode in episodes]
        self.max_return, self.min_return = max(returns), min(returns)
        self._starts: dict[str, list[Trajectory]] = {}
        for episode in episodes if starts is None else starts:
            self._starts.setdefault(episode.task_id, []).append(episode)
        self._tasks = list(self._starts)
        self.waiting: list[Any] = []
        """The episodes whose pending action is to be answered next."""

    def splits(self) -> tuple[str, ...]:
        return (SPLIT,)

    def num_tasks(self, split: str) -> int:
        return len(self._tasks)

    def get_task(self, split: str, index: int) -> str:
        return self._tasks[index]

    def expert(self, turn: Turn) -> str:
        raise InputError(f"{self.name} has no expert of its own: name the environment's")

    def starts(self, task: str) -> list[Trajectory]:
        """The logged episodes of `task`."""
        if task not in self._starts:
            raise InputError(f"task '{task}' is not in the log: a world model only goes on from a start it has")
        return self._starts[task]

    def start(self, task: str) -> Trajectory:
        """The first of them."""
        return self.starts(task)[0]

    @abstractmethod
    def advance(self) -> None:
        """Answer every waiting episode."""


W = TypeVar("W", bound=LogWorld)


class WaitingEnvironment(Generic[W]):
    """One episode. `begin` queues an action; the first `step` that needs a result has all that wait answered."""

    def __init__(self, world: W) -> None:
        self._world = world
        self.seed = 0
        self.first: tuple[str, ...] = ()
        """The admissible actions at the start; below, those of now."""
        self.allowed: tuple[str, ...] = ()
        self.action: str | None = None
        self.result: StepResult | None = None
        self.over = True

    def begin(self, action: str) -> None:
        """Queue `action`, to be answered together with everything else that waits."""
        if self.over:
            raise WorldlineError("the episode is over: reset() starts another")
        self.action, self.result = action, None
        self._world.waiting.append(self)

    def step(self, action: str) -> StepResult:
        if self.action != action:
            self.begin(action)
        if self.result is None:
            self._world.advance()
        assert self.result is not None
        result, self.action, self.result = self.result, None, None
        return result

    def uniform(self, *purpose: int | str) -> float:
        """A number in [0, 1) that depends on the episode's seed and on what it is for, and on nothing else."""
        return uniform(self.seed, *purpose)

    def offer(self, allowed: tuple[str, ...]) -> None:
        """Record the actions that are admissible next."""
        assert self.result is not None
        self.allowed = self.result[4]["admissible"] = allowed

    def _began(self, task: str, start: Trajectory) -> tuple[str, Info]:
        """The first observation and its info."""
        self.action, self.result, self.over = None, None, False
        self.first = self.allowed = start.steps[0].admissible or ()
        info: Info = {"admissible": self._listed(), "won": False, "score": 0.0, "task_id": task, "goal": start.goal}
        return start.steps[0].observation, info

    def _listed(self) -> tuple[str, ...] | None:
        return self.allowed if self._world.lists else None


@dataclass
class Support:
    """How well the log supports what was imagined, by how answers were made of logged ones."""

    near: Counter[str] = field(default_factory=Counter)
    unsupported: int = 0

    def count(self, near: str, *, supported: bool) -> None:
        """One more answer, where it came from and whether the log supports it."""
        self.near[near] += 1
        self.unsupported += not supported

    @property
    def steps(self) -> int:
        return self.near.total()
