"""A competent shopper that uses only the instruction, the pages so far and the current page.

It searches, opens the best looking affordable title, reads the features where a product word is missing, leaves for
a better looking article while there is time, chooses the options the instruction names, and buys. It keeps no
state: what it knows is read again from the history at every turn.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from worldline.envs.webshop.instruction import price_limit, product_words, queries, without_price, words
from worldline.envs.webshop.pages import SEPARATOR
from worldline.types import Turn

_BUDGET = 15
_BUY, _BACK, _PREVIOUS, _FEATURES = "click[buy now]", "click[back to search]", "click[< prev]", "click[features]"
_TAG = re.compile(r"\d+(?:\.\d+)?")
_HOPE = 2
"""Missing words that an article's features may still turn up: an attribute has about two."""
_HURRY = 4
"""With no more steps than this left, besides choosing options, the shopper settles for what it has."""


@dataclass
class _Article:
    """What the pages so far say about one article."""

    price: float
    features: set[str]
    opened: bool = False
    features_read: bool = False


@dataclass
class _Memory:
    """What the shopper has read so far; `current` is the article it stands on."""

    goal: str
    articles: dict[str, _Article] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)
    titles: set[str] = field(default_factory=set)
    offered: set[str] = field(default_factory=set)
    current: str = ""
    chosen: set[str] = field(default_factory=set)
    searches: int = 0

    def read(self, action: str, observation: str) -> None:
        """Take in `action` and the page it led to."""
        nodes = observation.split(SEPARATOR)
        argument = action[action.find("[") + 1 : -1]
        if action.startswith("search["):
            self.searches += 1
        elif not self.current and argument.upper() in self.articles:
            self.current = argument.upper()
        else:
            self.chosen.add(argument)
        if nodes[0] == "WebShop" or (len(nodes) > 3 and nodes[3].startswith("Page ")):
            self.current, self.chosen = "", set()
            self._read_results(nodes)
        elif self.current:
            self._read_article(nodes, self.articles[self.current], action)

    def _read_results(self, nodes: Sequence[str]) -> None:
        first = nodes.index("Next >") + 1 if "Next >" in nodes else len(nodes)
        listings = list(zip(nodes[first::3], nodes[first + 1 :: 3], nodes[first + 2 :: 3], strict=False))
        self.listed = [asin for asin, _, _ in listings]
        for asin, title, tag in listings:
            price = _TAG.search(tag)
            self.titles |= words(title)
            self.articles.setdefault(asin, _Article(float(price[0]) if price else 0.0, set(words(title))))

    def _read_article(self, nodes: Sequence[str], article: _Article, action: str) -> None:
        if nodes[-1] == "Buy Now":
            article.opened = True
            options = words(" ".join(_above_title(nodes)))
            article.features |= options
            self.offered |= options
        elif action == _FEATURES:
            article.features_read = True
            article.features |= words(" ".join(nodes[4:]))

    def fresh(self) -> list[str]:
        """What the last results list and the shopper has not opened yet."""
        return [asin for asin in self.listed if not self.articles[asin].opened]

    def missing(self, asin: str) -> frozenset[str]:
        """Product words that another article has, and this one does not show."""
        article = self.articles[asin]
        listed = self.titles | self.offered if article.opened else self.titles
        return product_words(self.goal) & listed - article.features

    def faults(self, asin: str, hope: int = 0) -> int:
        """Distance of the article from the instruction; `hope`: missing words that its features may still show."""
        article, limit = self.articles[asin], price_limit(self.goal)
        too_dear = limit is not None and article.price > limit
        return 3 * too_dear + max(len(self.missing(asin)) - (0 if article.features_read else hope), 0)


def act(turn: Turn) -> str:
    """The action of a competent shopper."""
    memory = _Memory(turn.goal)
    actions = ["", *(exchange.action for exchange in turn.history)]
    observations = [*(exchange.observation for exchange in turn.history), turn.observation]
    for action, observation in zip(actions, observations, strict=True):
        memory.read(action, observation)
    admissible = set(turn.admissible or ())
    left = _BUDGET - turn.step
    if not any(action.startswith("click[") for action in admissible):
        return f"search[{_query(turn.goal, memory.searches)}]"
    if _BUY in admissible:
        return _on_item(turn, memory, left)
    if memory.current:
        return _PREVIOUS
    return _on_results(memory, left)


def _query(goal: str, searches: int) -> str:
    """The longest query first (products are indexed with their options), then shorter ones."""
    tries = queries(goal)
    return tries[-1 - searches % len(tries)]


def _on_results(memory: _Memory, left: int) -> str:
    if not memory.listed:
        return _BACK
    fresh = memory.fresh()
    # an article was left because it fell short, so the shopper goes back to it only when time is short too
    pool = fresh if fresh and left > _HURRY else memory.listed
    best = min(pool, key=lambda asin: memory.faults(asin) + memory.listed.index(asin))
    return f"click[{best.lower()}]"


def _on_item(turn: Turn, memory: _Memory, left: int) -> str:
    groups = _option_groups(turn)
    picks = {name: _pick(turn.goal, name, values) for name, values in groups.items()}
    todo = [pick for pick in picks.values() if pick and pick not in memory.chosen]
    here = memory.current
    if here and left > len(todo) + _HURRY:
        unmet = sum(pick is None and name in turn.goal for name, pick in picks.items())
        if not unmet and memory.missing(here) and not memory.articles[here].features_read:
            return _FEATURES
        if any(memory.faults(asin, _HOPE) < memory.faults(here, _HOPE) + 2 * unmet for asin in memory.fresh()):
            return _PREVIOUS
    return f"click[{todo[0]}]" if todo and left > 1 else _BUY


def _option_groups(turn: Turn) -> dict[str, list[str]]:
    """The options of the item page before the shopper: a name, then the values that can be clicked."""
    clickable = set(turn.admissible or ())
    groups: dict[str, list[str]] = {}
    name = ""
    for node in _above_title(turn.observation.split(SEPARATOR)):
        if f"click[{node}]" in clickable:
            groups.setdefault(name, []).append(node)
        else:
            name = node
    return groups


def _above_title(nodes: Sequence[str]) -> Sequence[str]:
    price = next((i for i, node in enumerate(nodes) if node.startswith("Price: ")), 5)
    return nodes[4 : price - 1]


def _pick(goal: str, name: str, values: Sequence[str]) -> str | None:
    """The value of option `name` that the instruction asks for."""
    text = without_price(goal)
    best, strength = None, 0
    for value in values:
        match_strength = _strength(text, name, value)
        if match_strength > strength:
            best, strength = value, match_strength
    return best


def _strength(text: str, name: str, value: str) -> int:
    escaped = re.escape(value)
    if re.search(rf"{re.escape(name)}(?::| should be)? {escaped}(?![\w-])|(?<![\w-]){escaped} {re.escape(name)}", text):
        return 1000 + len(value)
    return len(value) if re.search(rf"(?<![\w-]){escaped}(?![\w-])", text) else 0
