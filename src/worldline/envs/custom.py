"""Your own environments: `module:attr` names a World, an Environment, or anything that makes one of them.

A bare Environment becomes a World with the single split `all`. Its tasks are those of its attribute `tasks` (strings)
where it has one; otherwise they are the seeds 0, 1, 2, ... A Gymnasium environment is welcome too.
"""

import functools
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from worldline.config import shortened, suggest
from worldline.envs.custom_environment import CustomEnvironment, kind_of
from worldline.types import Environment, InputError, Turn, World
from worldline.user_module import error_text, fails_at_the_call, import_user_module, module_in

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
        raise InputError(f"{path} is {kind_of(user_code)}: it must be a World, an Environment class, or make one")
    factory = functools.partial(user_code, **arguments)
    made = _made(path, factory)
    if _is_world(made):
        return cast(World, made)
    if _is_gymnasium(made):
        from worldline.envs.gym import GymConfig, GymWorld

        return GymWorld(path, GymConfig(), factory)
    missing = [method for method in ("reset", "step") if not callable(getattr(made, method, None))]
    if missing:
        raise InputError(f"{path} made {kind_of(made)} without {' and '.join(missing)}(): not an Environment")
    return CustomWorld(path, factory)


class CustomWorld:
    """A World around a bare Environment: what it does not say about itself gets a default."""

    def __init__(self, name: str, factory: Callable[[], Environment]) -> None:
        sample = _made(name, factory)
        self.name = name
        self.version = str(getattr(sample, "version", ""))
        self.family = str(getattr(sample, "family", "generic"))
        self.max_steps = _max_steps(name, getattr(sample, "max_steps", MAX_STEPS))
        self.max_return = _finite(name, "max_return", getattr(sample, "max_return", 1.0))
        lowest = getattr(sample, "min_return", None)
        self.min_return = None if lowest is None else _finite(name, "min_return", lowest)
        self._factory = factory
        tasks = getattr(sample, "tasks", None)
        self._seeded = tasks is None
        self._tasks = _task_names(name, range(SEEDS) if tasks is None else tasks)
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
        try:
            action: Any = self._advice(turn)
        except TypeError as error:
            if fails_at_the_call(error):
                raise InputError(f"{self.name}.expert must be `def expert(self, turn)`: {error}") from None
            raise
        if not isinstance(action, str):
            raise InputError(f"{self.name}.expert returned {shortened(action)}: it must return the action as text")
        return action

    def _check(self, split: str) -> None:
        if split != SPLIT:
            raise InputError(f"{self.name} has no split '{split}'{suggest(split, [SPLIT])}")


def _attribute(path: str) -> Any:
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        raise InputError(f"'{path}': user code is named as module:attr, for example my_envs:Maze")
    try:
        module = import_user_module(module_name, path)
    except ModuleNotFoundError as error:
        if name := module_in(module_name):
            raise InputError(f"{path}: give {name}:{attribute}, a module and not its file, in its folder") from None
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


def _made(path: str, factory: Callable[[], Any]) -> Any:
    """What the user's code makes when it is loaded. Later, in the midst of work, an error costs an episode only."""
    try:
        return factory()
    except (Exception, SystemExit) as error:
        if isinstance(error, TypeError) and fails_at_the_call(error):
            given = ", ".join(factory.keywords) if isinstance(factory, functools.partial) else ""
            raise InputError(f"{path} cannot be made with ({given}): {error}") from error
        raise InputError(f"{path}: making it failed: {error_text(error)}") from error


def _task_names(name: str, tasks: Any) -> tuple[str, ...]:
    if isinstance(tasks, str | bytes) or not isinstance(tasks, Iterable):
        raise InputError(f"{name}.tasks is {kind_of(tasks)}: it must be a list of the tasks' names")
    names = tuple(map(str, tasks))
    if not names:
        raise InputError(f"{name}.tasks is empty: name a task, or leave `tasks` out, and seeds are the tasks")
    return names


def _max_steps(name: str, value: Any) -> int:
    try:
        steps = int(value)
    except (TypeError, ValueError, OverflowError):
        steps = 0
    if steps < 1:
        raise InputError(f"{name}.max_steps is {shortened(value)}: it must be a whole number, 1 or more")
    return steps


def _finite(name: str, attribute: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name}.{attribute} is {shortened(value)}: it must be a finite number")
    return number


def _is_world(thing: Any) -> bool:
    return all(callable(getattr(thing, method, None)) for method in ("splits", "num_tasks", "get_task", "make"))


def _is_gymnasium(thing: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")
    return gymnasium is not None and isinstance(thing, gymnasium.Env)
