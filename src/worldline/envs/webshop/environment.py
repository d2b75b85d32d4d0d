"""One episode in a shop: a session with a task id and a step budget, behind the common protocol."""

import random
from collections.abc import Mapping, Sequence

from worldline.config import suggest
from worldline.envs.webshop.catalogue import Catalogue
from worldline.envs.webshop.engine import ShoppingSession
from worldline.envs.webshop.goals import Goal
from worldline.envs.webshop.reward import Nouns
from worldline.types import Info, InputError, StepResult, WorldlineError, derive_seed


class Tasks:
    """The goals of a shop by task id and by split, in one canonical order."""

    def __init__(self, goals: Mapping[str, Sequence[Goal]]) -> None:
        self.splits = tuple(goals)
        self._ids: dict[str, list[str]] = {}
        self._goals: dict[str, Goal] = {}
        for split, some in goals.items():
            self._ids[split] = [f"{split}-{i}-{goal.product.asin}" for i, goal in enumerate(some)]
            self._goals.update(zip(self._ids[split], some, strict=True))

    def of(self, split: str) -> list[str]:
        if split not in self._ids:
            raise InputError(f"no split '{split}'{suggest(split, self.splits)}")
        return self._ids[split]

    def __getitem__(self, task: str) -> Goal:
        if task not in self._goals:
            raise InputError(f"no task '{task}': ids look like '{next(iter(self._goals))}'")
        return self._goals[task]


class ShopEnvironment:
    """One episode: a session with a task id and a step budget."""

    def __init__(self, catalogue: Catalogue, tasks: Tasks, nouns: Nouns, max_steps: int) -> None:
        self._catalogue, self._tasks, self._nouns, self._max_steps = catalogue, tasks, nouns, max_steps
        self._task = ""
        self._steps = 0
        self._session: ShoppingSession | None = None

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        """Start `task`; without one, a task drawn from `seed` out of the first split that has any."""
        if task is None:
            ids = next(ids for ids in map(self._tasks.of, self._tasks.splits) if ids)
            task = random.Random(derive_seed("shop task", seed or 0)).choice(ids)
        self._session = ShoppingSession(self._catalogue, self._tasks[task], self._nouns)
        self._task, self._steps = task, 0
        return self._session.observation, self._info(self._session, valid=True)

    def step(self, action: str) -> StepResult:
        session = self._session
        if session is None or session.done or self._steps >= self._max_steps:
            raise WorldlineError("the episode is over: call reset() before step()")
        valid = session.act(action)
        self._steps += 1
        truncated = not session.done and self._steps >= self._max_steps
        return session.observation, session.score, session.done, truncated, self._info(session, valid)

    def clone(self) -> "ShopEnvironment":
        other = ShopEnvironment(self._catalogue, self._tasks, self._nouns, self._max_steps)
        other._task, other._steps = self._task, self._steps
        other._session = self._session.clone() if self._session else None
        return other

    def _info(self, session: ShoppingSession, valid: bool) -> Info:
        return Info(
            admissible=session.admissible,
            won=session.score == 1.0,
            score=session.score,
            task_id=self._task,
            goal=session.goal.instruction,
            valid=valid,
        )
