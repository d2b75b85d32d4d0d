"""Shopping goals, made the way the original makes its synthetic and human goals.

A synthetic goal is one product's instruction with one combination of its options and a price limit; a human goal
is an annotator's own sentence. The limit is the larger of two of the next four tens above the price. The original
draws prices and limits from an unseeded generator, so no two of its processes agree; ours are a function of a seed.
"""

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.webshop.product import Product

NO_LIMIT = 1_000_000.0
_TENS = tuple(10.0 * i for i in range(1, 100))
GoalOption = str | tuple[str, str]
"""(name, value) for a synthetic goal, a bare value for a human one: the reward reads the two differently."""


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """One task: buy something like `product` with these attributes and options, for at most `price_upper`."""

    product: Product
    instruction: str
    attributes: tuple[str, ...]
    options: tuple[GoalOption, ...]
    price_upper: float


@dataclass(frozen=True, slots=True)
class AnnotatedInstruction:
    """An annotated instruction of one product; `options` is None where every combination is a goal of its own."""

    text: str
    attributes: tuple[str, ...]
    options: tuple[str, ...] | None = None


def make_goals(
    products: Sequence[Product], instructions: Mapping[str, Iterable[AnnotatedInstruction]], rng: random.Random
) -> list[Goal]:
    """The goals of all products, in the catalogue's order; `instructions` by asin."""
    return [
        goal
        for product in products
        for instruction in instructions.get(product.asin, ())
        if instruction.attributes
        for goal in _goals_of(product, instruction, price_limit_above(product.price, rng))
    ]


def price_limit_above(price: float, rng: random.Random) -> float:
    """The larger of two of the next four tens above `price`; `NO_LIMIT` where there are not two."""
    tens = [ten for ten in _TENS if ten > price][:4]
    return max(rng.sample(tens, 2)) if len(tens) >= 2 else NO_LIMIT


def _goals_of(product: Product, instruction: AnnotatedInstruction, limit: float) -> Iterator[Goal]:
    price = f", and price lower than {limit:.2f} dollars" if limit < NO_LIMIT else ""
    if instruction.options is not None:
        yield Goal(product, instruction.text.strip(".") + price, instruction.attributes, instruction.options, limit)
        return
    names = sorted(product.options)
    for values in itertools.product(*(product.options[name] for name in names)):
        options = tuple(zip(names, values, strict=True))
        chosen = ", and ".join(f"{name}: {value}" for name, value in options)
        text = f"{instruction.text}{' with ' + chosen if chosen else ''}{price}"
        yield Goal(product, text, instruction.attributes, options, limit)
