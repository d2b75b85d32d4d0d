"""The environment of `household` and `alfworld`: one episode on the game engine."""

from collections.abc import Callable

from worldline.envs.household.engine import NOTHING_HAPPENS, AvailableCommands, GameEngine
from worldline.envs.household.game import State
from worldline.types import Info, StepResult, WorldlineError


class EngineCache:
    """The engines of the games played last; `read` makes the engine of a task."""

    def __init__(self, read: Callable[[str], GameEngine], size: int = 512) -> None:
        self._read = read
        self._size = size
        self._kept: dict[str, GameEngine] = {}

    def __call__(self, task: str) -> GameEngine:
        engine = self._kept.pop(task, None) or self._read(task)
        self._kept[task] = engine
        while len(self._kept) > self._size:
            self._kept.pop(next(iter(self._kept)), None)
        return engine

    def __reduce__(self) -> tuple[type["EngineCache"], tuple[Callable[[str], GameEngine], int]]:
        return EngineCache, (self._read, self._size)  # a worker process makes its own engines


class HouseholdEnvironment:
    """One episode. `load` gives the engine of a task, `draw` a task for a seed."""

    def __init__(self, load: Callable[[str], GameEngine], draw: Callable[[int], str], max_steps: int) -> None:
        self._load = load
        self._draw = draw
        self._max_steps = max_steps
        self._task = ""
        self._engine: GameEngine | None = None
        self._state: State | None = None
        self._options = AvailableCommands((), {})
        self._steps = 0
        self._won = False

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        """Start `task`, or the one that `seed` draws."""
        self._task = task if task is not None else self._draw(seed or 0)
        self._engine = engine = self._load(self._task)
        self._state = state = engine.game.initial.copy()
        self._options = engine.options(state)
        self._steps = 0
        self._won = engine.won(state)
        return engine.introduction, self._info(valid=True)

    def step(self, action: str) -> StepResult:
        """Do `action`; one that the state does not allow is answered, costs a step and changes nothing."""
        engine, state = self._engine, self._state
        if engine is None or state is None:
            raise WorldlineError("the episode has not begun: call reset() before step()")
        if self._won or self._steps >= self._max_steps:
            raise WorldlineError("the episode is over: call reset() before the next step()")
        self._steps += 1
        act = self._options.actions.get(action.strip())
        observation = NOTHING_HAPPENS
        if act is not None:
            observation = engine.perform(state, act)
            self._options = engine.options(state)
            self._won = engine.won(state)
        truncated = not self._won and self._steps >= self._max_steps
        return observation, float(self._won), self._won, truncated, self._info(valid=act is not None)

    def clone(self) -> "HouseholdEnvironment":
        """An independent copy of the episode as it stands."""
        twin = HouseholdEnvironment(self._load, self._draw, self._max_steps)
        twin._task, twin._engine, twin._options = self._task, self._engine, self._options
        twin._state = self._state.copy() if self._state is not None else None
        twin._steps, twin._won = self._steps, self._won
        return twin

    def _info(self, *, valid: bool) -> Info:
        assert self._engine is not None
        return {
            "admissible": self._options.commands,
            "won": self._won,
            "score": float(self._won),
            "task_id": self._task,
            "goal": self._engine.game.task,
            "valid": valid,
        }
