"""A running episode on the engine, in Gymnasium's shape: what both `household` and `alfworld` hand out."""

from collections.abc import Callable

from worldline.envs.household.engine import NOTHING_HAPPENS, Options, Stage
from worldline.envs.household.game import State
from worldline.types import Info, StepResult, WorldlineError


class Stages:
    """The games played last, ready for the next episode; `read` makes the stage of a task."""

    def __init__(self, read: Callable[[str], Stage], size: int = 512) -> None:
        self._read = read
        self._size = size
        self._kept: dict[str, Stage] = {}

    def __call__(self, task: str) -> Stage:
        stage = self._kept.pop(task, None) or self._read(task)
        self._kept[task] = stage
        while len(self._kept) > self._size:
            self._kept.pop(next(iter(self._kept)), None)
        return stage

    def __reduce__(self) -> tuple[type["Stages"], tuple[Callable[[str], Stage], int]]:
        return Stages, (self._read, self._size)  # a worker process makes its own games


class Episode:
    """One game being played. `load` gives the stage of a task, `draw` a task for a seed."""

    def __init__(self, load: Callable[[str], Stage], draw: Callable[[int], str], max_steps: int) -> None:
        self._load = load
        self._draw = draw
        self._max_steps = max_steps
        self._task = ""
        self._stage: Stage | None = None
        self._state: State | None = None
        self._options = Options((), {})
        self._steps = 0
        self._won = False

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        """Start `task`, or the one that `seed` draws."""
        self._task = task if task is not None else self._draw(seed or 0)
        self._stage = stage = self._load(self._task)
        self._state = state = stage.game.initial.copy()
        self._options = stage.options(state)
        self._steps = 0
        self._won = stage.won(state)
        return stage.introduction, self._info(valid=True)

    def step(self, action: str) -> StepResult:
        """Do `action`; one that the state does not allow is answered, costs a step and changes nothing."""
        stage, state = self._stage, self._state
        if stage is None or state is None:
            raise WorldlineError("the episode has not begun: call reset() before step()")
        if self._won or self._steps >= self._max_steps:
            raise WorldlineError("the episode is over: call reset() before the next step()")
        self._steps += 1
        act = self._options.actions.get(action.strip())
        observation = NOTHING_HAPPENS
        if act is not None:
            observation = stage.perform(state, act)
            self._options = stage.options(state)
            self._won = stage.won(state)
        truncated = not self._won and self._steps >= self._max_steps
        return observation, float(self._won), self._won, truncated, self._info(valid=act is not None)

    def clone(self) -> "Episode":
        """An independent copy of the episode as it stands."""
        twin = Episode(self._load, self._draw, self._max_steps)
        twin._task, twin._stage, twin._options = self._task, self._stage, self._options
        twin._state = self._state.copy() if self._state is not None else None
        twin._steps, twin._won = self._steps, self._won
        return twin

    def _info(self, *, valid: bool) -> Info:
        assert self._stage is not None
        return {
            "admissible": self._options.commands,
            "won": self._won,
            "score": float(self._won),
            "task_id": self._task,
            "goal": self._stage.game.task,
            "valid": valid,
        }
