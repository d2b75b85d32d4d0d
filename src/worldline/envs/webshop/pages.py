"""The text of WebShop's pages, and what can be clicked on each.

The original renders HTML and reads the text nodes back; here the nodes are written directly. A node of nothing but
blanks leaves an empty place, one of nothing but blanks with a line break leaves none: that is what the original's
parser does, and some products have such texts.
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.webshop.product import Product

SEPARATOR = " [SEP] "
PAGE_SIZE = 10
BACK, PREVIOUS, NEXT, BUY = "back to search", "< prev", "next >", "buy now"
SUB_PAGES = ("description", "features", "reviews")
_BLANKS = " \t\n\r\f\v"


@dataclass(frozen=True, slots=True)
class Body:
    """A page without its instruction: what follows it, what can be clicked, and that as actions."""

    text: str
    clickables: tuple[str, ...]
    actions: tuple[str, ...]


def start(instruction: str) -> str:
    return _join(["WebShop", "Instruction:", instruction, "Search"])


def below(instruction: str, body: Body) -> str:
    """`body` under its instruction."""
    return f"{_join(['Instruction:', instruction])}{SEPARATOR}{body.text}"


def results(hits: Sequence[Product], page: int) -> Body:
    shown = hits[(page - 1) * PAGE_SIZE : page * PAGE_SIZE]
    turns = ["< Prev", "Next >"] if page > 1 else ["Next >"]
    nodes = ["Back to Search", f"Page {page} (Total results: {len(hits)})", *turns]
    for product in shown:
        nodes += [product.asin, product.title, product.price_tag]
    buttons = [BACK, *(turn.lower() for turn in turns)]
    return _body(nodes, [*buttons, *(product.asin.lower() for product in shown)])


def item(product: Product) -> Body:
    nodes = ["Back to Search", "< Prev"]
    for name, values in product.options.items():
        nodes += [name, *values]
    nodes += [product.title, f"Price: {product.price_tag}", "Rating: N.A."]
    nodes += ["Description", "Features", "Reviews", "Buy Now"]
    buttons = [BACK, PREVIOUS, *SUB_PAGES, BUY]
    return _body(nodes, itertools.chain(buttons, *product.options.values()))


def sub(product: Product, name: str) -> Body:
    """One of `SUB_PAGES` of `product`. The original ships no reviews, so that page is empty."""
    texts = {
        "description": [product.description],
        "features": [f" {bullet}" for bullet in product.bullets],
        "reviews": [],
    }[name]
    return _body(["Back to Search", "< Prev", *texts], [BACK, PREVIOUS])


def done(asin: str, chosen: Mapping[str, str], score: float) -> str:
    """The page after buying. It shows the score: a world model trained on it would learn to read the reward."""
    options = json.dumps(dict(chosen), sort_keys=True)
    for sign in "<>&'":  # how the original's templates write JSON
        options = options.replace(sign, f"\\u{ord(sign):04x}")
    nodes = [
        "Thank you for shopping with us!",
        "Your code:",
        "None",
        "(Paste it in your MTurk interface.)",
        "Purchased",
    ]
    nodes += ["asin", asin, "options", options, "attrs", "None", "category", "None", "query", "None"]
    nodes += ["product category", "None", "Target", "asin", "options", "attrs", "price upper", "instuction text"]
    nodes += ["category", "product category", "query", "Goal", "None", "Reward"]
    nodes += ["Your score (min 0.0, max 1.0)", str(score), "Reward Details", "None"]
    return _join(nodes)


def _body(nodes: Iterable[str], clickables: Iterable[str]) -> Body:
    names = tuple(dict.fromkeys(clickables))
    return Body(_join(nodes), names, tuple(f"click[{name}]" for name in names))


def _join(nodes: Iterable[str]) -> str:
    return SEPARATOR.join(node.strip() for node in nodes if not _vanishes(node))


def _vanishes(node: str) -> bool:
    return not node or ("\n" in node and not node.strip(_BLANKS))
