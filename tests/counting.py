"""A tiny world for tests of the plumbing: count up to the task's number, or miscount."""

import copy
from dataclasses import dataclass, field
from typing import Self

from worldline.types import Decision, Info, StepResult, Turn


class CountingEnv:
    """`up` adds one; reaching the task's number wins; `crash` raises."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        self.target, self.count = int(task or 1), 0
        info: Info = {
            "admissible": ("up", "stay"),
            "goal": f"count to {self.target}",
            "task_id": str(self.target),
            "won": False,
        }
        return "at 0", info

    def step(self, action: str) -> StepResult:
        if action == "crash":
            raise RuntimeError("the floor gave way")
        self.count += action == "up"
        won = self.count == self.target
        info: Info = {"admissible": ("up", "stay"), "won": won, "valid": action in ("up", "stay")}
        return f"at {self.count}", float(won), won, False, info

    def clone(self) -> Self:
        return copy.copy(self)


@dataclass
class CountingWorld:
    name: str = "counting"
    version: str = "1"
    family: str = "counting"
    max_steps: int = 6
    max_return: float = 1.0
    made: list[CountingEnv] = field(default_factory=list)

    def splits(self) -> tuple[str, ...]:
        return ("train", "test")

    def num_tasks(self, split: str) -> int:
        return 3

    def get_task(self, split: str, index: int) -> str:
        return str(index + 1)

    def make(self) -> CountingEnv:
        self.made.append(CountingEnv())
        return self.made[-1]

    def expert(self, turn: Turn) -> str:
        return "up"


class SeededPolicy:
    """Goes up or stays by its turn's seed alone; records how many turns each call held."""

    name = "seeded"

    def __init__(self) -> None:
        self.calls: list[int] = []

    def act(self, turns: list[Turn]) -> list[Decision]:
        self.calls.append(len(turns))
        actions = ["up" if turn.seed % 3 else "stay" for turn in turns]
        return [Decision(action=action, response=action) for action in actions]
