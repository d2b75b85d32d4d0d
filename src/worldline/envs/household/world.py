"""`household`: a seeded generator of new houses on the ALFWorld-compatible engine; needs nothing installed.

Six task families, closed receptacles that hide their content, distractors, sparse reward: 1 on success. Splits by
layout: `train`, `seen` (new tasks in train layouts), `unseen` (layouts no train task has).
"""

from typing import Literal

from worldline.config import Config, option
from worldline.envs.household import generator
from worldline.envs.household.engine import GameEngine
from worldline.envs.household.environment import EngineCache, HouseholdEnvironment
from worldline.envs.household.expert import act
from worldline.envs.household.wording import FAMILIES
from worldline.types import InputError, Turn, derive_seed

Family = Literal["pick", "look", "clean", "heat", "cool", "pick_two"]


class HouseholdConfig(Config):
    """Which houses are generated."""

    level: Literal["tiny", "small", "standard"] = option(
        "standard", help="size of the houses; tiny ones can be enumerated for exact values"
    )
    seed: int = option(0, help="seed of the generator: another seed gives other houses and tasks")
    families: tuple[Family, ...] = option(FAMILIES, help="task families to draw from", min_length=1)
    max_steps: int | None = option(None, help="step budget of an episode (default: by level)", ge=1)


class HouseholdWorld:
    """The generated houses and their tasks. Tasks are made when first used; the last few hundred are kept."""

    name = "household"
    family = "household"
    max_return = 1.0
    min_return = 0.0

    def __init__(self, config: HouseholdConfig | None = None) -> None:
        self.config = config = config or HouseholdConfig()
        self.version = f"1/{config.level}/{config.seed}"
        self.max_steps = config.max_steps or generator.LEVELS[config.level].max_steps
        self._layouts = generator.layouts(config.level, config.seed)
        self.engine = EngineCache(self._make_engine)

    def splits(self) -> tuple[str, ...]:
        return generator.SPLITS

    def num_tasks(self, split: str) -> int:
        self._check(split)
        return generator.TASKS[split]

    def get_task(self, split: str, index: int) -> str:
        if not 0 <= index < self.num_tasks(split):
            raise InputError(f"household has {self.num_tasks(split)} tasks in '{split}', there is no task {index}")
        return f"{split}/{index}"

    def make(self) -> HouseholdEnvironment:
        return HouseholdEnvironment(self.engine, self._draw, self.max_steps)

    def expert(self, turn: Turn) -> str:
        """What an observant agent does: see `expert.py`."""
        return act(turn)

    def walkthrough(self, task: str) -> tuple[str, ...]:
        """The commands of somebody who knows where everything is."""
        return self.engine(task).game.walkthrough

    def _draw(self, seed: int) -> str:
        return self.get_task("train", derive_seed(seed, "task") % self.num_tasks("train"))

    def _make_engine(self, task: str) -> GameEngine:
        split, _, number = task.partition("/")
        self._check(split)
        if not number.isdecimal() or int(number) >= generator.TASKS[split]:
            raise InputError(f"no household task '{task}': a task is SPLIT/NUMBER, like train/17")
        index = int(number)
        family = self.config.families[index % len(self.config.families)]
        rooms = self._layouts[split]
        return GameEngine(generator.make_game(self.config.level, self.config.seed, split, index, family, rooms))

    def _check(self, split: str) -> None:
        if split not in generator.SPLITS:
            raise InputError(f"household has no split '{split}': there are {', '.join(generator.SPLITS)}")
