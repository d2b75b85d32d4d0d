"""Your own environments: `module:attr` names a World, an Environment, or anything that makes one of them.

A bare Environment becomes a World with the single split `all`. Its tasks are those of its attribute `tasks` (strings)
where it has one; otherwise they are the seeds 0, 1, 2, ... A Gymnasium environment is welcome too.
"""

import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Self, cast

from worldline.config import suggest
from worldline.types import Environment, Info, InputError, StepResult, Turn, World
from worldline.user_module import import_user_module

SPLIT = "all"
SEEDS = 1_000
MAX_STEPS = 50


def load_custom(path: str, data: Path | None, options: dict[str, Any]) -> World:
    """The world behind `module:attr`; `options` (and `data`, if given) are passed to it where it can be called."""
    user_code = _attribute(path)
    arguments = options | ({"data": data} if data is not None else {})
    if _is_world(user_code) and not isinstance(user_code, type):
        if arguments:
            raise InputError(f"{path} is a ready-made World: it takes no settings, got {', '.join(arguments)}")
        return cast(World, user_code)
    if not callable(user_code):
        raise InputError(f"{path} is {_kind(user_code)}: it must be a World, an Environment class, or make one")
    made = _made(path, user_code, arguments)
    if _is_world(made):
        return cast(World, made)
    if _is_gymnasium(made):
        from worldline.envs.gym import GymConfig, GymWorld

        return GymWorld(path, GymConfig(), lambda: _made(path, user_code, arguments))
    missing = [method for method in ("reset", "step") if not callable(getattr(made, method, None))]
    if missing:
        raise InputError(f"{path} made {_kind(made)} without {' and '.join(missing)}(): not an Environment")
    return CustomWorld(path, lambda: cast(Environment, _made(path, user_code, arguments)))


class CustomWorld:
    """A World around a bare Environment: what it does not say about itself gets a default."""

    def __init__(self, name: str, factory: Callable[[], Environment]) -> None:
        sample = factory()
        self.name = name
        self.version = str(getattr(sample, "version", ""))
        self.family = str(getattr(sample, "family", "generic"))
        self.max_steps = int(getattr(sample, "max_steps", MAX_STEPS))
        self.max_return = float(getattr(sample, "max_return", 1.0))
        self._factory = factory
        tasks: Sequence[str] | None = getattr(sample, "tasks", None)
        self._seeded = tasks is None
        self._tasks = tuple(map(str, range(SEEDS) if tasks is None else tasks))
        self._advice: Callable[[Turn], str] | None = getattr(sample, "expert", None)

    def splits(self) -> tuple[str, ...]:
        return (SPLIT,)

    def num_tasks(self, split: str) -> int:
        self._check(split)
        return len(self._tasks)

    def get_task(self, split: str, index: int) -> str:
        if not 0 <= index < self.num_tasks(split):
            raise InputError(f"{self.name} has {self.num_tasks(split)} tasks, there is no task {index}")
        return self._tasks[index]

    def make(self) -> Environment:
        return CustomEnvironment(self._factory(), seeded=self._seeded)

    def expert(self, turn: Turn) -> str:
        if self._advice is None:
            raise InputError(f"{self.name} has no expert: give it a method expert(turn), or choose another policy")
        return self._advice(turn)

    def _check(self, split: str) -> None:
        if split != SPLIT:
            raise InputError(f"{self.name} has no split '{split}'{suggest(split, [SPLIT])}")


class CustomEnvironment:
    """The user's environment, with task ids turned into seeds where it has no tasks, and `clone` where it has none."""

    def __init__(self, inner: Environment, *, seeded: bool) -> None:
        self._inner = inner
        self._seeded = seeded

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        if self._seeded:
            seed = int(task) if task is not None else seed or 0
            observation, info = self._opening(self._inner.reset(seed=seed))
            task = str(seed)
        else:
            observation, info = self._opening(self._inner.reset(seed=seed, task=task))
        defaults: Info = {"admissible": None, "won": False, "task_id": task or "", "goal": ""}
        return observation, cast(Info, {**defaults, **info})

    def step(self, action: str) -> StepResult:
        answer: Any = self._inner.step(action)
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise InputError(
                f"{type(self._inner).__name__}.step must return (observation, reward, terminated, truncated, info), "
                f"it returned {_shape(answer)}"
            )
        observation, reward, terminated, truncated, info = answer
        self._check(observation, info, "step")
        try:
            return observation, float(reward), bool(terminated), bool(truncated), info
        except (TypeError, ValueError):
            raise InputError(f"{type(self._inner).__name__}.step returned the reward {reward!r}: no number") from None

    def _opening(self, answer: Any) -> tuple[str, Info]:
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InputError(
                f"{type(self._inner).__name__}.reset must return (observation, info), it returned {_shape(answer)}"
            )
        self._check(*answer, "reset")
        return answer

    def _check(self, observation: Any, info: Any, method: str) -> None:
        name = f"{type(self._inner).__name__}.{method}"
        if not isinstance(observation, str):
            raise InputError(f"{name} returned {_kind(observation)} as observation: it must be text")
        if not isinstance(info, dict):
            raise InputError(f"{name} returned {_kind(info)} as info: it must be a dict")

    def clone(self) -> Self:
        inner = self._inner.clone() if hasattr(self._inner, "clone") else copy.deepcopy(self._inner)
        return type(self)(inner, seeded=self._seeded)


def _shape(answer: Any) -> str:
    return f"{len(answer)} values" if isinstance(answer, tuple) else _kind(answer)


def _kind(value: Any) -> str:
    """'an int', 'a str', 'None'."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _attribute(path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise InputError(f"'{path}': user code is named as module:attr, for example my_envs:Maze")
    try:
        module = import_user_module(module_name)
    except ModuleNotFoundError as error:
        raise InputError(f"{path}: no module named '{error.name}' {_where(module_name, error)}") from None
    if not hasattr(module, attribute):
        raise InputError(f"{path}: module {module_name} has no '{attribute}'{suggest(attribute, _own_names(module))}")
    return getattr(module, attribute)


def _own_names(module: ModuleType) -> list[str]:
    """What a module defines that may be an environment, without what it imports and what Python puts there."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (callable(value) or _is_world(value))
        and getattr(value, "__module__", module.__name__) == module.__name__
    ]


def _where(module_name: str, error: ModuleNotFoundError) -> str:
    """Where a module was looked for, and what to do: Python looks for a file in the current folder only."""
    if error.name != module_name.partition(".")[0]:
        return f"which {module_name} imports: install it"
    return f"is installed, nor is {module_name.replace('.', '/')}.py in this folder: run from the folder it lies in"


def _made(path: str, factory: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    try:
        return factory(**arguments)
    except TypeError as error:
        raise InputError(f"{path} cannot be made with ({', '.join(arguments)}): {error}") from error


def _is_world(thing: Any) -> bool:
    return all(callable(getattr(thing, method, None)) for method in ("splits", "num_tasks", "get_task", "make"))


def _is_gymnasium(thing: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(thing, gymnasium.Env)
