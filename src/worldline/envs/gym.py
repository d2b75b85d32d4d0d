"""Gymnasium text environments as worlds: `gym:ID` or `gym:module:ID`, observation and action spaces `spaces.Text`.

Tasks are seeds: task "7" is `reset(seed=7)`. Of the info an environment gives, `admissible` (or
`admissible_commands`), `won` (or `success`, `is_success`), `score`, `goal` and `valid` are understood. Success is
unknown, not 0, where an environment never says it.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self, cast

from worldline.config import Config, option
from worldline.envs.seeded_tasks import SeededTasks
from worldline.types import Info, InputError, StepResult, Turn
from worldline.user_module import import_user_module

MAX_STEPS = 50
_NAMES = {
    "admissible": ("admissible", "admissible_commands"),
    "won": ("won", "success", "is_success"),
    "score": ("score",),
    "goal": ("goal",),
    "valid": ("valid",),
}


class GymConfig(Config):
    """A Gymnasium text environment."""

    tasks: int = option(1_000, help="how many seeds count as tasks", ge=1)
    max_steps: int | None = option(None, help="step budget; default: the environment's own time limit, else 50", ge=1)
    max_return: float = option(1.0, help="the best return an episode can have", gt=0)
    min_return: float | None = option(None, help="the worst return; default: as far below 0 as the best is above")
    kwargs: dict[str, Any] = option({}, help="passed to gymnasium.make")


class GymWorld(SeededTasks):
    """Episodes of one Gymnasium environment."""

    version = ""
    family = "generic"

    def __init__(self, name: str, config: GymConfig, factory: Callable[[], Any] | None = None) -> None:
        super().__init__(config.tasks)
        self._factory = factory or _registered(name, config.kwargs)
        sample = self._factory()
        _check_spaces(name, sample)
        spec = getattr(sample, "spec", None)
        self.name = name if factory else f"gym:{name}"
        self.config = config
        self.max_steps: int = config.max_steps or getattr(spec, "max_episode_steps", None) or MAX_STEPS
        self.max_return, self.min_return = config.max_return, config.min_return
        sample.close()

    def make(self) -> "GymEnvironment":
        return GymEnvironment(self._factory())

    def expert(self, turn: Turn) -> str:
        raise InputError(f"{self.name} has no expert: choose another policy")


class GymEnvironment:
    """One Gymnasium environment, its task ids being seeds."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        seed = int(task) if task is not None else seed or 0
        observation, info = self._inner.reset(seed=seed)
        return str(observation), {"goal": "", "admissible": None, **_info(info), "task_id": str(seed)}

    def step(self, action: str) -> StepResult:
        observation, reward, terminated, truncated, info = self._inner.step(action)
        return str(observation), float(reward), bool(terminated), bool(truncated), _info(info)

    def clone(self) -> Self:
        return type(self)(copy.deepcopy(self._inner))


def _registered(name: str, kwargs: dict[str, Any]) -> Callable[[], Any]:
    """Makes the environment of that id; the id may name the module that registers it, as `module:ID`, which is then
    imported: a name from the command line or from Python, as `module:attr` is."""
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise InputError("gym:ID needs Gymnasium: pip install 'worldline[gymnasium]'") from None
    module, colon, short = name.rpartition(":")
    if colon:
        try:
            import_user_module(module, f"gym:{name}")
        except ModuleNotFoundError as error:
            raise InputError(f"gym:{name}: no module named '{error.name}' here or installed") from None
        name = short
    try:
        gymnasium.spec(name)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise InputError(f"gym:{name}: {' '.join(str(error).split())}") from None
    return lambda: gymnasium.make(name, disable_env_checker=True, **kwargs)


def _check_spaces(name: str, environment: Any) -> None:
    import gymnasium

    for side in ("observation", "action"):
        space = getattr(environment, f"{side}_space", None)
        if not isinstance(space, gymnasium.spaces.Text):
            raise InputError(f"{name}: the {side} space is {space}, not Text: wrap the environment so that it is text")


def _info(given: Mapping[str, Any]) -> Info:
    understood = {
        ours: given[theirs] for ours, names in _NAMES.items() for theirs in reversed(names) if theirs in given
    }
    return cast(Info, understood)
