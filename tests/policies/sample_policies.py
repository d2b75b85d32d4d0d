"""User code of the kinds that `module:attr` may name."""

from collections.abc import Sequence
from typing import Any

from worldline.types import Decision, Turn

NUMBER = 3


def look_around(turn: Turn) -> str:
    return f"look {turn.step}"


class Waiter:
    def __init__(self, word: str = "wait") -> None:
        self.name = word
        self._word = word

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [Decision(action=self._word, response=self._word) for _ in turns]


WAITER = Waiter("ready")


def factory(world: Any, settings: Any) -> Waiter:
    return Waiter(f"{world} {settings.temperature}")


def number(turn: Turn) -> int:
    return NUMBER


class Unready:
    def __init__(self) -> None:
        raise ValueError("no model")


def leaving() -> Waiter:
    raise SystemExit(3)


def three(one: Any, two: Any, three: Any) -> None: ...


def nothing() -> int:
    return 1


class Nameless:
    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [Decision(action="wait", response="wait") for _ in turns]


NAMELESS = Nameless()


class Sealed(Nameless):
    """Takes no attribute."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(name)


class Idle:
    """Has no `act`."""


def two(turn: Any, more: Any) -> str:
    return "wait"


def first_of_two(turn: Any, more: Any) -> str:
    return str(turn.observation)
