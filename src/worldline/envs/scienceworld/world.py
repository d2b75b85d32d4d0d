"""`scienceworld`: 30 science tasks of primary school in a simulated house, 7,207 variations. Needs the extra and Java.

The reward is the change of the score, which goes up to 1 and may start above 0 (the right room is worth points);
failing for good takes back what was earned and ends the episode. The list of valid actions is lazy: it costs more than
a step. The expert follows the solution of the task, stored or generated; without a task id it looks the task up by the
start of the episode, which many variations share.
"""

import fnmatch
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from worldline.config import Config, option, suggest
from worldline.envs.jsonlines import rows_of
from worldline.envs.scienceworld.simulator import Simulator, check_installed
from worldline.types import Exchange, Info, InputError, LazyActions, StepResult, Turn, WorldlineError, derive_seed

SPLITS = ("train", "dev", "test")
VARIATIONS = {
    "boil": 30, "change-the-state-of-matter-of": 30, "chemistry-mix": 32, "chemistry-mix-paint-secondary-color": 36,
    "chemistry-mix-paint-tertiary-color": 36, "find-animal": 300, "find-living-thing": 300,
    "find-non-living-thing": 300, "find-plant": 300, "freeze": 30, "grow-fruit": 126, "grow-plant": 126,
    "identify-life-stages-1": 14,
    "identify-life-stages-2": 10, "inclined-plane-determine-angle": 168, "inclined-plane-friction-named-surfaces": 1386,
    "inclined-plane-friction-unnamed-surfaces": 162, "lifespan-longest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125, "lifespan-shortest-lived": 125,
    "measure-melting-point-known-substance": 436, "measure-melting-point-unknown-substance": 300, "melt": 30,
    "mendelian-genetics-known-plant": 120, "mendelian-genetics-unknown-plant": 480, "power-component": 20,
    "power-component-renewable-vs-nonrenewable-energy": 20, "test-conductivity": 900,
    "test-conductivity-of-unknown-substances": 600, "use-thermometer": 540,
}  # packed lines read better  # fmt: skip
"""Number of variations of each task: the simulator's own figures, without starting it."""

NOT_UNDERSTOOD = ("No known action matches that input.", "Unknown action.")
RESTART, LOOK = "reset task", "look around"
MOVING = ("open door", "close door", "go to", "wait")
"""What the expert does without looking. Moving into a room does not show it, yet solutions name things there, which
no agent could learn from its observations."""


def variations(task: str, split: str) -> range:
    """The official split: the first half of the variations, in quarters rounded down, then a quarter, then the rest."""
    count, quarter = VARIATIONS[task], VARIATIONS[task] // 4
    bounds = {"train": (0, 2 * quarter), "dev": (2 * quarter, 3 * quarter), "test": (3 * quarter, count)}
    return range(*bounds[split])


class ScienceWorldConfig(Config):
    """The ScienceWorld simulator."""

    tasks: tuple[str, ...] = option((), help="only these of the 30 tasks, e.g. [boil, 'find-*']; none for all")
    simplifications: str = option("easy", help="the simulator's: easy, or a comma-separated choice; empty for none")
    max_steps: int = option(200, help="step budget of an episode; its own solutions take up to 178", ge=1)


class ScienceWorld:
    """The tasks, and the solutions so far."""

    name = "scienceworld"
    version = "1.2.3"
    family = "scienceworld"
    max_return = 1.0

    def __init__(self, config: ScienceWorldConfig | None = None, data: Path | None = None) -> None:
        check_installed()
        self.config = config or ScienceWorldConfig()
        self.max_steps = self.config.max_steps
        chosen = _chosen(self.config.tasks)
        self._tasks = {split: list(_interleaved(chosen, split)) for split in SPLITS}
        self._solutions: dict[str, tuple[str, ...]] = {}
        self._started: dict[tuple[str, str], str] = {}
        for task, goal, start, actions in _stored(data) if data else ():
            self._solutions[task] = actions
            self.note(goal, start, task)

    def splits(self) -> tuple[str, ...]:
        return SPLITS

    def num_tasks(self, split: str) -> int:
        return len(self._of(split))

    def get_task(self, split: str, index: int) -> str:
        if not 0 <= index < self.num_tasks(split):
            raise InputError(f"scienceworld has {self.num_tasks(split)} tasks in '{split}', there is no task {index}")
        return self._of(split)[index]

    def make(self) -> "ScienceWorldEnvironment":
        return ScienceWorldEnvironment(self)

    def expert(self, turn: Turn) -> str:
        """The next action of the solution; but it looks around before it touches things in a new room."""
        start = turn.history[0].observation if turn.history else turn.observation
        named = turn.task.rpartition("/")[0] in VARIATIONS  # an imported log may name its tasks differently
        task = turn.task if named else self._started.get((turn.goal, start))
        if task is None:
            raise InputError("scienceworld has no solution for this episode: give stored ones by --data FILE")
        left = list(self.solution(task))
        for exchange in turn.history:
            if left and exchange.action == left[0]:
                left.pop(0)
        return left[0] if left and (left[0].startswith(MOVING) or _looked(turn.history)) else LOOK

    def solution(self, task: str) -> tuple[str, ...]:
        """A solution of the task: stored, or worked out by the simulator."""
        if task not in self._solutions:
            simulator = Simulator()
            simulator.load(*_parts(task), self.config.simplifications, gold=True)
            self._solutions[task] = simulator.gold_actions()
        return self._solutions[task]

    def note(self, goal: str, start: str, task: str) -> None:
        """Remember which task begins so, for an expert that sees texts only."""
        self._started[goal, start] = task

    def _of(self, split: str) -> list[str]:
        if split not in self._tasks:
            raise InputError(f"scienceworld has no split '{split}'{suggest(split, list(SPLITS))}")
        return self._tasks[split]


class ScienceWorldEnvironment:
    """One episode."""

    def __init__(self, world: ScienceWorld) -> None:
        self._world = world
        self._simulator: Simulator | None = None
        self._task = ""
        self._actions: list[str] = []
        self._start = self._score = 0.0
        self._over = True

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        if task is None:
            draw = random.Random(derive_seed(seed or 0, "task"))
            task = self._world.get_task(SPLITS[0], draw.randrange(self._world.num_tasks(SPLITS[0])))
        self._task, self._actions, self._over = task, [], False
        self._simulator = self._simulator or Simulator()
        self._simulator.load(*_parts(task), self._world.config.simplifications)
        observation, goal = self._simulator.start(), self._simulator.description
        self._start = self._score = self._simulator.score / 100
        self._world.note(goal, observation, task)
        info: Info = {"admissible": self._admissible(), "won": False, "score": self._start}
        return observation, info | {"task_id": task, "goal": goal}

    def step(self, action: str) -> StepResult:
        if self._simulator is None or self._over:
            raise WorldlineError("the episode is over: reset() starts another")
        observation = self._simulator.step(action)
        self._actions.append(action)
        reached = self._simulator.score
        terminated = reached < 0 or self._simulator.completed
        truncated = not terminated and len(self._actions) >= self._world.max_steps
        self._over = terminated or truncated
        before, self._score = self._score, max(reached / 100, self._start)
        info: Info = {
            "admissible": () if self._over else self._admissible(),
            "won": reached >= 100,
            "score": self._score,
            "valid": not observation.startswith(NOT_UNDERSTOOD),
        }
        return observation, self._score - before, terminated, truncated, info

    def clone(self) -> Self:
        """The simulator cannot be copied: another one is brought to the same place."""
        other = type(self)(self._world)
        if self._simulator is not None:
            other.reset(task=self._task)
            for action in self._actions:
                other.step(action)
        return other

    def _admissible(self) -> LazyActions:
        taken = len(self._actions)

        def listed() -> Sequence[str]:
            if self._simulator is None or len(self._actions) != taken:
                raise WorldlineError("the admissible list was read after a later step")
            return [action for action in self._simulator.valid_actions() if action != RESTART]

        return LazyActions(listed)


def _chosen(patterns: Sequence[str]) -> tuple[str, ...]:
    """The tasks that match the names or patterns, in the order of the whole list; all without patterns."""
    for pattern in patterns:
        if not fnmatch.filter(VARIATIONS, pattern):
            raise InputError(f"scienceworld has no task '{pattern}'{suggest(pattern, list(VARIATIONS))}")
    return tuple(task for task in VARIATIONS if any(fnmatch.fnmatch(task, pattern) for pattern in patterns or "*"))


def _looked(history: Sequence[Exchange]) -> bool:
    """Whether the room has been looked at since it was entered; the first one is shown at the start."""
    return next((past.action == LOOK for past in reversed(history) if past.action.startswith((LOOK, "go to"))), True)


def _interleaved(tasks: Sequence[str], split: str) -> Iterator[str]:
    """One variation of every task, then another of every task: any prefix of the list is balanced and varied."""
    spread = [[variations(task, split)[at] for at in _spread(len(variations(task, split)))] for task in tasks]
    places = sorted((rank, order) for order, chosen in enumerate(spread) for rank in range(len(chosen)))
    return (f"{tasks[order]}/{spread[order][rank]}" for rank, order in places)


def _spread(count: int) -> list[int]:
    """0 to count - 1, by reversed bits (van der Corput): neighbouring variations resemble one another."""
    bits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda at: int(f"{at:0{bits}b}"[::-1], 2))


def _parts(task: str) -> tuple[str, int]:
    name, _, variation = task.rpartition("/")
    if name not in VARIATIONS or not variation.isdigit() or int(variation) >= VARIATIONS[name]:
        raise InputError(
            f"scienceworld has no task '{task}': they are named like boil/6{suggest(name, list(VARIATIONS))}"
        )
    return name, int(variation)


def _stored(file: Path) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """The solutions of a file of episodes: task, goal, first observation, actions."""
    for place, row in rows_of(file):
        try:
            goal = row["task"].removeprefix("Task Description:").strip()
            actions = tuple(step["action"] for step in row["steps"])
            yield row["task_id"], goal, row["initial_observation"], actions
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"{place}: no episode with task_id, task, initial_observation and steps ({error!r})"
            ) from None
