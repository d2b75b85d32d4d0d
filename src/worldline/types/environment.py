"""What an environment is: Gymnasium's shape, over text.

A `World` is the shared, immutable side (games, catalogue, corpus, splits); an `Environment` is the state of one
running episode, cheap to make by the thousand. A fitted world model implements the same two protocols.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, Self, TypedDict, overload, runtime_checkable

from worldline.types.errors import InputError
from worldline.types.policy import Turn


class Info(TypedDict, total=False):
    """What `reset` and `step` return beside the observation. `reset` gives `task_id` and `goal` too. `answerable`,
    if given at the end, says whether the world contains the answer to the task; `halted`, whether an imagined episode
    ended because its world model knew no more."""

    admissible: Sequence[str] | None
    won: bool | None
    score: float
    task_id: str
    goal: str
    valid: bool
    answerable: bool
    halted: bool


StepResult = tuple[str, float, bool, bool, Info]
"""observation, reward, terminated, truncated, info: Gymnasium's order."""


@runtime_checkable
class Environment(Protocol):
    """One running episode."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        """Start `task` (or one drawn from `seed`); the observation and what goes with it."""

    def step(self, action: str) -> StepResult:
        """Do `action`. An action the world does not understand is answered and marked `valid: False`."""

    def clone(self) -> Self:
        """An independent copy of the episode as it stands."""


@runtime_checkable
class EagerEnvironment(Environment, Protocol):
    """An environment in another process or machine that can work while other environments step."""

    def begin(self, action: str) -> None:
        """Start on `action`; the `step(action)` that follows gives the result, or raises what went wrong."""


@runtime_checkable
class World(Protocol):
    """Where episodes come from. Tasks have one canonical order per split."""

    name: str
    version: str
    family: str
    """Which prompt template fits: `household`, `shop` or `search`; anything else gets the generic one."""
    max_steps: int
    max_return: float

    def splits(self) -> tuple[str, ...]: ...

    def num_tasks(self, split: str) -> int: ...

    def get_task(self, split: str, index: int) -> str:
        """The id of task `index` of `split`: what `Environment.reset(task=...)` takes."""

    def make(self) -> Environment: ...

    def expert(self, turn: Turn) -> str:
        """The action of a competent agent that sees only the turn; InputError if the world has no expert."""


def lowest_return(world: World) -> float | None:
    """The worst return of an episode: a world's `min_return` where it has one. Else it is taken to lie as far below 0
    as the best lies above; nothing is known of a world whose best return is 0 or less."""
    declared: float | None = getattr(world, "min_return", None)
    if declared is not None:
        if not declared <= world.max_return:
            raise InputError(f"{world.name}: its min_return {declared:g} is above its max_return {world.max_return:g}")
        return declared
    return -world.max_return if world.max_return > 0 else None


class LazyActions(Sequence[str]):
    """An admissible list that is computed only when somebody looks at it."""

    def __init__(self, compute: Callable[[], Sequence[str]]) -> None:
        self._compute = compute
        self._actions: tuple[str, ...] | None = None

    @property
    def computed(self) -> bool:
        return self._actions is not None

    def _all(self) -> tuple[str, ...]:
        if self._actions is None:
            self._actions = tuple(self._compute())
        return self._actions

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())
