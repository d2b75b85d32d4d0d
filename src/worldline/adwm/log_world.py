"""What worlds made from a log have in common: the log's tasks, and episodes that wait to be answered in one batch."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from worldline.adwm.ensemble import Ensemble
from worldline.types import Info, InputError, StepResult, Trajectory, Turn, WorldlineError

SPLIT = "log"


class LogWorld(ABC):
    """Episodes begin as those of the log it was fitted on, or those of `starts`. `kind` is how it is made up."""

    def __init__(self, kind: str, ensemble: Ensemble, starts: Sequence[Trajectory] | None) -> None:
        self.facts, self.lore = ensemble.members[0].model.facts, ensemble.lore
        self.name, self.version, self.family = f"{kind}:{self.facts.env}", self.facts.env_version, self.facts.family
        self.max_steps = self.facts.horizon
        self.max_return = max(episode.episode_return for episode in self.lore.episodes)
        self._starts: dict[str, Trajectory] = {}
        for episode in self.lore.episodes if starts is None else starts:
            self._starts.setdefault(episode.task_id, episode)
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

    def start(self, task: str) -> Trajectory:
        """A logged episode that begins as `task` does."""
        if task not in self._starts:
            raise InputError(f"task '{task}' is not in the log: a world model only goes on from a start it has")
        return self._starts[task]

    @abstractmethod
    def advance(self) -> None:
        """Answer every waiting episode."""


W = TypeVar("W", bound=LogWorld)


class WaitingEnvironment(Generic[W]):
    """One episode. `begin` queues an action; whoever asks for its result first has all that wait answered together."""

    def __init__(self, world: W) -> None:
        self._world = world
        self.seed = 0
        self.first: tuple[str, ...] = ()
        """What could be done at the start; below, what can be done now."""
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

    def offer(self, allowed: tuple[str, ...]) -> None:
        """Record what can be done next."""
        assert self.result is not None
        self.allowed = self.result[4]["admissible"] = allowed

    def _began(self, task: str, start: Trajectory) -> tuple[str, Info]:
        """The first observation, and what there is to say about it."""
        self.action, self.result, self.over = None, None, False
        self.first = self.allowed = start.steps[0].admissible or ()
        info: Info = {"admissible": self._listed(), "won": False, "score": 0.0, "task_id": task, "goal": start.goal}
        return start.steps[0].observation, info

    def _listed(self) -> tuple[str, ...] | None:
        return self.allowed if self._world.lore.lists else None
