"""`shop`: a seeded catalogue of invented products and the goals of invented shoppers.

Every kind of product comes in several articles that differ in attributes, options and price, so that most of what a
search finds is nearly right: buying it earns part of the score. Some attributes stand in the title, the rest only on
the features or description page. Test goals are about products that no train goal is about; every search covers
all products. The wording of goals varies; a goal of its own product, options and price limit always reaches 1.0.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.webshop.assortment import KINDS, ProductKind
from worldline.envs.webshop.goals import NO_LIMIT, Goal, price_limit_above
from worldline.envs.webshop.product import Product
from worldline.types import derive_seed

TEST_EVERY = 4
"""Of each kind, one product in this many is kept for the test split."""

_SYLLABLES = (
    "nor",
    "vik",
    "lum",
    "ara",
    "tel",
    "ozo",
    "bri",
    "kan",
    "sul",
    "eme",
    "dor",
    "fyn",
    "gal",
    "hux",
    "mir",
    "zed",
)
_TITLES = (
    "{brand} {first} {noun} for {use}, {rest}",
    "{brand} {noun} - {first}, {rest}, for {use}",
    "{first} {noun} by {brand}, {rest}",
    "{brand} {use} {noun}, {first} and {rest}",
)
_BULLETS = (
    "{A}: made to be {a} and to stay so.",
    "You asked for {a}, so this {also} is {a}.",
    "Tested as {a} by our own customers.",
    "{A} design, ready for {use}.",
)
_PLAIN_BULLETS = (
    "A gift that fits {use} as well as every day.",
    "Questions about this {also}? {brand} answers within a day.",
    "Packed with care; the colour on your screen may differ a little.",
    "Part of the {brand} series of this season.",
)
_DESCRIPTIONS = (
    "The {brand} {also} was drawn for {use}. {extra}It keeps its shape for years.",
    "{extra}A {also} that does what it should, from the {brand} workshop, with {use} in mind.",
    "Why choose this {also}? {extra}It is at home wherever {use} is.",
)
_LEADS = ("Find me", "i am looking for", "i'm looking for", "i need", "i want to buy", "please help me find", "show me")
_INSTRUCTION_FORMS = (
    "{lead} {attributes} {noun}",
    "{lead} {noun} with {attributes}",
    "{lead} {first} {noun} with {rest}",
    "{lead} {noun} that is {joined}",
    "{lead} {attributes} {noun} for {use}",
)
_OPTION_FORMS = (
    (" with {pairs}", "{name}: {value}", ", and "),
    (", {pairs}", "{name}: {value}", ", "),
    ("; the {pairs}", "{name} should be {value}", " and the "),
    (" in {pairs}", "{value} {name}", " and "),
    (". i'd like the {pairs}", "{name} {value}", " and the "),
)
_PRICES = (
    ", and price lower than {limit:.2f} dollars",
    ", under {limit:.0f} dollars",
    ", for less than {limit:.0f} dollars",
    ". my budget is {limit:.0f} dollars",
    ", costing less than {limit:.2f} dollars",
)


@dataclass(frozen=True)
class Stock:
    """What the generator makes: products in catalogue order, goals by split."""

    products: tuple[Product, ...]
    goals: Mapping[str, tuple[Goal, ...]]


def generate(seed: int, products: int, goals_per_product: int) -> Stock:
    """A catalogue of `products` articles, spread evenly over the kinds, and the goals about them."""
    brands = _brands(random.Random(derive_seed("shop", seed, "brands")))
    made: list[Product] = []
    goals: dict[str, list[Goal]] = {"train": [], "test": []}
    for i in range(products):
        kind = KINDS[i % len(KINDS)]
        rng = random.Random(derive_seed("shop", seed, i))
        product = _product(kind, brands[i % len(brands)], rng)
        made.append(product)
        split = "test" if i // len(KINDS) % TEST_EVERY == TEST_EVERY - 1 else "train"
        goals[split] += [_goal(kind, product, rng) for _ in range(goals_per_product)]
    for split, some in goals.items():
        random.Random(derive_seed("shop", seed, split)).shuffle(some)
    return Stock(tuple(made), {split: tuple(some) for split, some in goals.items()})


def _brands(rng: random.Random) -> list[str]:
    names = [(one + two).title() for one in _SYLLABLES for two in _SYLLABLES if one != two]
    rng.shuffle(names)
    return names


def _product(kind: ProductKind, brand: str, rng: random.Random) -> Product:
    attributes = rng.sample(kind.attributes, rng.choice((3, 4, 4, 5)))
    titled, hidden = attributes[:-1], attributes[-1:]
    use = rng.choice(kind.uses)
    first, *rest = (attribute.title() for attribute in titled)
    words = {"brand": brand, "noun": kind.noun, "use": use, "also": kind.also, "first": first, "rest": ", ".join(rest)}
    bullets = [rng.choice(_PLAIN_BULLETS).format(**words)]
    bullets += [rng.choice(_BULLETS).format(A=a.capitalize(), a=a, **words) for a in (*hidden, rng.choice(titled))]
    rng.shuffle(bullets)
    title = rng.choice(_TITLES).format(**words | {"use": use.title()})
    described = f"It is {rng.choice(attributes)}. " if rng.random() < 0.5 else ""
    pricing = _pricing(kind, rng)
    return Product(
        asin="B0" + "".join(rng.choices("0123456789BCDFGHJKLMNPQRSTVWXYZ", k=8)),
        title=title[0].upper() + title[1:],
        description=rng.choice(_DESCRIPTIONS).format(extra=described, **words),
        bullets=tuple(bullets),
        pricing=pricing,
        price=rng.uniform(*pricing) if len(pricing) == 2 else pricing[0],
        options={name: _some(values, rng) for name, values in kind.options.items()},
        attributes=tuple(attributes),
        category=kind.shelf.split(" › ")[0].lower(),
        query=kind.noun.lower(),
        product_category=f"{kind.shelf} › {kind.noun}",
    )


def _pricing(kind: ProductKind, rng: random.Random) -> tuple[float, ...]:
    price = round(round(kind.cheap * (kind.dear / kind.cheap) ** rng.random()) - 0.01, 2)
    return (price,) if rng.random() < 0.93 else (price, round(price * rng.uniform(1.1, 1.4), 2))


def _some(values: Sequence[str], rng: random.Random) -> tuple[str, ...]:
    """Some of the values, in the order of the pool."""
    kept = set(rng.sample(values, rng.randint(min(3, len(values)), min(5, len(values)))))
    return tuple(value for value in values if value in kept)


def _goal(kind: ProductKind, product: Product, rng: random.Random) -> Goal:
    attributes = tuple(rng.sample(product.attributes, rng.choice((1, 2, 2, 3))))
    names = rng.sample(sorted(product.options), rng.choice((1, 2, 2)))
    options = tuple((name, rng.choice(product.options[name])) for name in names)
    limit = price_limit_above(product.price, rng)
    use = next(use for use in kind.uses if use in product.description)
    return Goal(product, _words(kind, use, attributes, options, limit, rng), attributes, options, limit)


def _words(
    kind: ProductKind,
    use: str,
    attributes: Sequence[str],
    options: Sequence[tuple[str, str]],
    limit: float,
    rng: random.Random,
) -> str:
    first, *rest = attributes
    forms = _INSTRUCTION_FORMS if rest else [form for form in _INSTRUCTION_FORMS if "{rest}" not in form]
    text = rng.choice(forms).format(
        lead=rng.choice(_LEADS),
        noun=rng.choice((kind.noun, kind.noun, kind.also)).lower(),
        attributes=", ".join(attributes),
        joined=" and ".join(attributes),
        first=first,
        rest=", ".join(rest),
        use=use,
    )
    frame, pair, comma = rng.choice(_OPTION_FORMS)
    pairs = comma.join(pair.format(name=name, value=value) for name, value in options)
    price = rng.choice(_PRICES).format(limit=limit) if limit < NO_LIMIT else ""
    return text + frame.format(pairs=pairs) + price
