"""What the small worlds share: tasks by number, one episode at a time, a step budget, scripted policies by name.

A world's own file has its `SmallGame`: the rules of one episode. Everything that a task fixes is drawn from the task's
number, everything else from the episode's seed, so an episode is a function of both and of the actions.
"""

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from worldline.config import Config, option, suggest
from worldline.envs.small.script import Rule
from worldline.types import Info, InputError, StepResult, Turn, WorldlineError, derive_seed

SPLITS = {"train": 600, "test": 200}


@dataclass(frozen=True, slots=True)
class Reaction:
    """What an action did."""

    observation: str
    reward: float = 0.0
    over: bool = False
    won: bool = False
    valid: bool = True


class SmallGame(Protocol):
    """The rules and the state of one episode."""

    goal: str

    def introduction(self) -> str:
        """The first observation."""

    def act(self, action: str) -> Reaction: ...

    def admissible(self) -> Sequence[str] | None:
        """What can be done now; None in a world of free sentences."""


class SmallConfig(Config):
    """A small world."""

    seed: int = option(0, help="of what the tasks fix: another seed gives other tasks")


class SmallWorld:
    """The tasks of one small world. A subclass says how a game begins, and which policies it has scripts for."""

    name: str
    version: str = "1"
    family: str = "generic"
    max_steps: int
    max_return: float = 1.0
    return_range: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest return of an episode."""
    config: SmallConfig

    @property
    def min_return(self) -> float:
        return self.return_range[0]

    def splits(self) -> tuple[str, ...]:
        return tuple(SPLITS)

    def num_tasks(self, split: str) -> int:
        if split not in SPLITS:
            raise InputError(f"{self.name} has no split '{split}'{suggest(split, list(SPLITS))}")
        return SPLITS[split]

    def get_task(self, split: str, index: int) -> str:
        if not 0 <= index < self.num_tasks(split):
            raise InputError(f"{self.name} has {self.num_tasks(split)} tasks in '{split}', there is no task {index}")
        return f"{split}/{index}"

    def make(self) -> "SmallEnvironment":
        return SmallEnvironment(self)

    def expert(self, turn: Turn) -> str:
        """The first of the scripts is the world's best: the action that it takes most often."""
        rule = next(iter(self.scripts.values()))
        chosen = rule(turn)
        return chosen if isinstance(chosen, str) else max(chosen, key=lambda action: chosen[action])

    def fixed(self, task: str) -> random.Random:
        """The draws that belong to a task: the same whenever it is played."""
        split, _, number = task.partition("/")
        if split not in SPLITS or not number.isdecimal() or int(number) >= SPLITS[split]:
            raise InputError(f"no {self.name} task '{task}': a task is SPLIT/NUMBER, like train/17")
        return random.Random(derive_seed(self.config.seed, self.name, task))

    @property
    def scripts(self) -> Mapping[str, Rule]:
        """Scripted policies by name, the best one first."""
        raise NotImplementedError

    def menu(self, turn: Turn) -> Sequence[str]:
        """What a policy that acts by chance chooses from: the admissible actions where they are listed."""
        return turn.admissible or ()

    def game(self, task: random.Random, draw: random.Random) -> SmallGame:
        """A new episode: `task` has the draws that the task fixes, `draw` those of the episode."""
        raise NotImplementedError


class SmallEnvironment:
    """One episode of a small world."""

    def __init__(self, world: SmallWorld) -> None:
        self._world = world
        self._game: SmallGame | None = None
        self._steps = 0
        self._over = False

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world, seed = self._world, seed or 0
        if task is None:
            task = world.get_task("train", derive_seed(seed, "task") % world.num_tasks("train"))
        self._game = game = world.game(world.fixed(task), random.Random(derive_seed(seed, world.name, "episode")))
        self._steps, self._over = 0, False
        observation = game.introduction()
        return observation, {"admissible": game.admissible(), "won": False, "task_id": task, "goal": game.goal}

    def step(self, action: str) -> StepResult:
        if self._game is None or self._over:
            raise WorldlineError("no episode is under way: call reset() before step()")
        self._steps += 1
        reaction = self._game.act(" ".join(action.split()))
        truncated = not reaction.over and self._steps >= self._world.max_steps
        self._over = reaction.over or truncated
        info: Info = {"admissible": self._game.admissible(), "won": reaction.won, "valid": reaction.valid}
        return reaction.observation, reaction.reward, reaction.over, truncated, info

    def clone(self) -> Self:
        return copy.deepcopy(self, {id(self._world): self._world})
