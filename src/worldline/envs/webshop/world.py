"""`shop` and `webshop`: the same engine on a generated catalogue and on the original's data files."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from worldline.config import Config, option
from worldline.envs.webshop import expert
from worldline.envs.webshop.assortment import kind_nouns
from worldline.envs.webshop.catalogue import Catalogue
from worldline.envs.webshop.environment import ShopEnvironment, Tasks
from worldline.envs.webshop.files import DataFiles
from worldline.envs.webshop.generator import generate
from worldline.envs.webshop.goals import Goal, make_goals
from worldline.envs.webshop.nouns import title_nouns
from worldline.envs.webshop.product import Product
from worldline.envs.webshop.reward import Nouns
from worldline.types import InputError, Turn

CANONICAL_SEED = 233
"""The original's seed for shuffling goals; ours draws prices and price limits from it too."""
TEST_GOALS, DEV_GOALS = 500, 1000


class _Shop:
    """What both worlds share: one catalogue and one list of tasks for any number of environments."""

    family = "shop"
    max_return = 1.0
    min_return = 0.0

    def __init__(
        self, products: Sequence[Product], goals: Mapping[str, Sequence[Goal]], nouns: Nouns, max_steps: int
    ) -> None:
        self.catalogue = Catalogue(products)
        self.tasks = Tasks(goals)
        self.nouns = nouns
        self.max_steps = max_steps

    def splits(self) -> tuple[str, ...]:
        return self.tasks.splits

    def num_tasks(self, split: str) -> int:
        return len(self.tasks.of(split))

    def get_task(self, split: str, index: int) -> str:
        return self.tasks.of(split)[index]

    def make(self) -> ShopEnvironment:
        return ShopEnvironment(self.catalogue, self.tasks, self.nouns, self.max_steps)

    def expert(self, turn: Turn) -> str:
        return expert.act(turn)


class ShopConfig(Config):
    """The generated shop: everything in it is a function of these."""

    seed: int = option(0, help="which catalogue and goals")
    products: int = option(336, help="articles in the catalogue, spread over the kinds", ge=24)
    goals_per_product: int = option(4, help="shopping goals about each article", ge=1)
    max_steps: int = option(15, help="step budget of an episode", ge=1)


class ShopWorld(_Shop):
    """A generated catalogue. Splits `train` and `test`: no product is the goal of both; both search all products."""

    name = "shop"
    version = "1"

    def __init__(self, config: ShopConfig | None = None) -> None:
        self.config = config or ShopConfig()
        stock = generate(self.config.seed, self.config.products, self.config.goals_per_product)
        super().__init__(stock.products, stock.goals, kind_nouns, self.config.max_steps)


class WebShopConfig(Config):
    """WebShop on its own data files."""

    goals: Literal["synthetic", "human"] = option("synthetic", help="whose instructions: generated or people's")
    max_steps: int = option(15, help="step budget of an episode", ge=1)


class WebShopWorld(_Shop):
    """WebShop on its own data files.

    Goals come in the original's order (its loader, then one shuffle with seed 233); the first 500 are `test`, the next
    1,000 `dev`, the rest `train`, for every process alike. Goals differ in options more than in products, so the
    splits share products: cluster statistics by the asin that ends a task id.
    """

    name = "webshop"
    version = "1"

    def __init__(self, data: Path, config: WebShopConfig | None = None, *, nouns: Nouns = title_nouns) -> None:
        config = config or WebShopConfig()
        rng = random.Random(CANONICAL_SEED)
        files = DataFiles.find(Path(data), human=config.goals == "human")
        products = files.products(rng)
        ordered = make_goals(products, files.instructions(), rng)
        if not ordered:
            instructions = files.human or files.attributes
            raise InputError(f"{files.items}: no {config.goals} goals: {instructions} is about none of its products")
        random.Random(CANONICAL_SEED).shuffle(ordered)
        splits = {
            "train": ordered[TEST_GOALS + DEV_GOALS :],
            "dev": ordered[TEST_GOALS : TEST_GOALS + DEV_GOALS],
            "test": ordered[:TEST_GOALS],
        }
        super().__init__(products, splits, nouns, config.max_steps)
