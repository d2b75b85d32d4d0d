"""The user's own environment as an episode, with a check of all that it returns.

A wrong shape or value is bad input: one line that names the class, and what is expected. What its code raises costs the
episode, as in any environment.
"""

import copy
import math
from collections.abc import KeysView, Sequence, ValuesView
from typing import Any, Self, cast

import numpy as np

from worldline.config import shortened
from worldline.types import LARGEST_REWARD, Environment, Info, InputError, LazyActions, StepResult
from worldline.user_module import fails_at_the_call

_EXPECTED = {
    "admissible": "a list of texts, or None",
    "won": "True or False, or None where that is unknown",
    "valid": "True or False",
    "score": "a finite number, or None",
    "goal": "text",
}
_PLAIN, _TEXT = frozenset({list, tuple}), frozenset({str})


class CustomEnvironment:
    """The user's environment, with task ids turned into seeds where it has no tasks, and `clone` where it has none."""

    def __init__(self, inner: Environment, *, seeded: bool) -> None:
        self._inner = inner
        self._seeded = seeded

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        if self._seeded:
            seed = int(task) if task is not None else seed or 0
            observation, info = self._opening({"seed": seed})
            task = str(seed)
        else:
            observation, info = self._opening({"seed": seed, "task": task})
        defaults: Info = {"admissible": None, "won": False, "task_id": task or "", "goal": ""}
        return observation, cast(Info, {**defaults, **info})

    def step(self, action: str) -> StepResult:
        try:
            answer: Any = self._inner.step(action)
        except TypeError as error:
            if fails_at_the_call(error):
                raise InputError(f"{self._name('step')} must be `def step(self, action)`: {error}") from None
            raise
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise InputError(
                f"{self._name('step')} must return (observation, reward, terminated, truncated, info), "
                f"it returned {_shape(answer)}"
            )
        observation, reward, terminated, truncated, info = answer
        self._check(observation, info, "step")
        try:
            reward = float(reward)
        except (TypeError, ValueError):
            raise InputError(f"{self._name('step')} returned the reward {reward!r}: no number") from None
        if not math.isfinite(reward):
            raise InputError(f"{self._name('step')} returned the reward {reward}: it must be a finite number")
        if abs(reward) > LARGEST_REWARD:
            raise InputError(
                f"{self._name('step')} returned the reward {reward}: at most {LARGEST_REWARD:g} is allowed"
            )
        return observation, reward, bool(terminated), bool(truncated), info

    def clone(self) -> Self:
        inner = self._inner.clone() if hasattr(self._inner, "clone") else copy.deepcopy(self._inner)
        return type(self)(inner, seeded=self._seeded)

    def _opening(self, arguments: dict[str, Any]) -> tuple[str, Info]:
        try:
            answer: Any = self._inner.reset(**arguments)
        except TypeError as error:
            if fails_at_the_call(error):
                expected = "`def reset(self, *, seed=None, task=None)`"
                raise InputError(f"{self._name('reset')} must be {expected}: {error}") from None
            raise
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise InputError(f"{self._name('reset')} must return (observation, info), it returned {_shape(answer)}")
        self._check(*answer, "reset")
        return answer

    def _check(self, observation: Any, info: Any, method: str) -> None:
        if not isinstance(observation, str):
            raise InputError(f"{self._name(method)} returned {kind_of(observation)} as observation: it must be text")
        if not isinstance(info, dict):
            raise InputError(f"{self._name(method)} returned {kind_of(info)} as info: it must be a dict")
        if wrong := _wrong_key(info):
            value = shortened(info[wrong])
            raise InputError(f'{self._name(method)} returned info["{wrong}"] = {value}: it must be {_EXPECTED[wrong]}')

    def _name(self, method: str) -> str:
        return f"{type(self._inner).__name__}.{method}"


def _shape(answer: Any) -> str:
    return f"{len(answer)} values" if isinstance(answer, tuple) else kind_of(answer)


def kind_of(value: Any) -> str:
    """'an int', 'a str', 'None'."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _wrong_key(info: dict[str, Any]) -> str:
    """The first key of `info` that has a wrong value; empty if there is none. Every step passes here."""
    if not _is_listing(info.get("admissible")):
        return "admissible"
    if not _is_flag(info.get("won", True)) and info["won"] is not None:
        return "won"
    if not _is_flag(info.get("valid", True)):
        return "valid"
    if not _is_number(info.get("score", 0.0)) and info["score"] is not None:
        return "score"
    return "" if isinstance(info.get("goal", ""), str) else "goal"


def _is_listing(admissible: Any) -> bool:
    """Whether it is a list of texts, or None; a lazy list is not computed for this."""
    if type(admissible) not in _PLAIN:  # what is not plain takes longer to tell
        if admissible is None or isinstance(admissible, LazyActions):
            return True
        if isinstance(admissible, str) or not isinstance(admissible, Sequence | KeysView | ValuesView | np.ndarray):
            return False
    kinds = set(map(type, admissible))
    return kinds <= _TEXT or all(issubclass(kind, str) for kind in kinds)


def _is_flag(value: Any) -> bool:
    """Whether it is a truth value: Python's, numpy's, or 0 or 1."""
    try:
        return value is True or value is False or bool(value == bool(value))
    except (TypeError, ValueError):  # an array has no one truth value
        return False


def _is_number(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (TypeError, ValueError, OverflowError):
        return False
