"""WebShop's reward for a purchase: how much of the goal the bought product, its options and its price meet.

score = r_type * (attributes met + options met + price met) / (attributes + options + 1)   (WebShop, section 3).

One quirk of the original is kept, because scores are compared with it: a synthetic goal's option is matched as the
*pair* (name, value) written out, while the buyer's choice is reduced to the first colour word it contains. Where a
value merely contains such a word (`cashmere` has `ash`), the two no longer match, and no purchase can reach 1.0.

r_type compares the nouns of two titles. The original asks spaCy; any function can be given here, and the small one of
`nouns` is the default. Buying the goal's own product never depends on it; partial scores of other products can.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from worldline.envs.webshop.goals import Goal, GoalOption
from worldline.envs.webshop.product import Product

Nouns = Callable[[str], Sequence[str]]
"""The nouns of a title, lower case, repeats kept."""

_THRESHOLD = 85
_COLOURS_TEXT = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
wheat white wine yellow
"""
_COLOURS = tuple(_COLOURS_TEXT.split())
_LATIN_1 = dict.fromkeys(range(128, 256))


@dataclass(frozen=True, slots=True)
class Score:
    """The parts of a purchase's reward."""

    kind: float
    attributes: int
    options: int
    price: bool
    out_of: int

    @property
    def total(self) -> float:
        return (self.attributes + self.options + self.price) / self.out_of * self.kind


def score(goal: Goal, product: Product, chosen: Iterable[str], nouns: Nouns) -> Score:
    """What buying `product` with the option values `chosen` is worth for `goal`."""
    return Score(
        kind=type_score(goal.product, product, nouns),
        attributes=sum(_has_attribute(product, attribute) for attribute in goal.attributes),
        options=_options_met(list(chosen), goal.options),
        price=product.price <= goal.price_upper,
        out_of=len(goal.attributes) + len(goal.options) + 1,
    )


def type_score(target: Product, bought: Product, nouns: Nouns) -> float:
    """1 for the same kind of product, down to 0 for titles without a common noun."""
    desired = nouns(target.title)
    shared = len(set(desired) & set(nouns(bought.title)))
    title_score = shared / len(desired) if desired else 0.2
    if title_score == 0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    alike = bought.query == target.query or title_score > 0.2 or len(_shelf(bought) & _shelf(target)) >= 2
    return 1.0 if alike else 0.5


def _shelf(product: Product) -> set[str]:
    return {part.strip() for part in product.product_category.split("›")}


def _has_attribute(product: Product, attribute: str) -> bool:
    return any(_alike(own, attribute) for own in product.attributes) or any(
        attribute in text.lower() for text in (product.title, " ".join(product.bullets), product.description)
    )


def _options_met(chosen: Sequence[str], requested: Sequence[GoalOption]) -> int:
    colours = [_colour_of(value) for value in chosen]
    return sum(any(_alike(colour, str(_goal_value(option))) for colour in colours) for option in requested)


def _goal_value(option: GoalOption) -> GoalOption:
    if isinstance(option, str):
        return _colour_of(option)
    return next((colour for colour in _COLOURS if colour in option), option)


@lru_cache(maxsize=1 << 16)
def _colour_of(value: str) -> str:
    """The first colour word contained in `value`, else `value`."""
    return next((colour for colour in _COLOURS if colour in value), value)


def _alike(one: str, other: str) -> bool:
    # thefuzz, which the original uses, drops Latin-1 letters, lower-cases, and rounds the ratio to a whole number
    return round(token_set_ratio(_plain(one), _plain(other))) > _THRESHOLD


@lru_cache(maxsize=1 << 16)
def _plain(text: str) -> str:
    return default_process(text.translate(_LATIN_1))
