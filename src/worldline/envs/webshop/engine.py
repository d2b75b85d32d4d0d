"""One shopping session: where the shopper is, and what `search[...]` and `click[...]` do there.

The rules are those of the original's text environment. Its four debugging queries (`<r>`, `<a>`, `<c>`, `<q>`) are
ordinary text here: one is random, one crashes, and no published agent uses them.
"""

import re
from dataclasses import dataclass, field, replace
from enum import Enum

from worldline.envs.webshop import pages
from worldline.envs.webshop.catalogue import Catalogue
from worldline.envs.webshop.goals import Goal
from worldline.envs.webshop.instruction import queries
from worldline.envs.webshop.product import Product
from worldline.envs.webshop.reward import Nouns, score

_ACTION = re.compile(r"(.+)\[(.+)\]")


class Place(Enum):
    START = "start"
    RESULTS = "results"
    ITEM = "item"
    SUB_PAGE = "sub page"
    DONE = "done"


@dataclass(slots=True)
class ShoppingSession:
    """The state of one episode; everything it points to besides `options` is shared and immutable."""

    catalogue: Catalogue
    goal: Goal
    nouns: Nouns
    place: Place = Place.START
    query: str = ""
    page: int = 1
    product: Product | None = None
    sub_page: str = ""
    options: dict[str, str] = field(default_factory=dict)
    score: float = 0.0

    def clone(self) -> "ShoppingSession":
        return replace(self, options=dict(self.options))

    @property
    def done(self) -> bool:
        return self.place is Place.DONE

    @property
    def observation(self) -> str:
        if self.place is Place.START:
            return pages.start(self.goal.instruction)
        if self.place is Place.DONE:
            return pages.done(self._product.asin, self.options, self.score)
        return pages.below(self.goal.instruction, self._body)

    @property
    def admissible(self) -> tuple[str, ...]:
        """Queries worth a try on the search page, clicks everywhere else."""
        if self.place is Place.START:
            return tuple(f"search[{query}]" for query in queries(self.goal.instruction))
        return () if self.done else self._body.actions

    def act(self, action: str) -> bool:
        """Do `action`; False (and nothing happens) where the page does not understand it."""
        match = _ACTION.match(action)
        if match is None:
            return False
        verb, argument = match[1], match[2].lower()
        if verb == "search":
            self._show_results(argument, 1)
            return True
        if verb == "click" and self.place not in (Place.START, Place.DONE) and argument in self._body.clickables:
            self._click(argument)
            return True
        return False

    def _click(self, name: str) -> None:
        if name == pages.BUY:
            self.score = score(self.goal, self._product, self.options.values(), self.nouns).total
            self.place = Place.DONE
        elif name == pages.BACK:
            self.place, self.query, self.page, self.product, self.options = Place.START, "", 1, None, {}
        elif name in (pages.NEXT, pages.PREVIOUS):
            self._turn(name)
        elif name in pages.SUB_PAGES:
            self.place, self.sub_page = Place.SUB_PAGE, name
        elif self.place is Place.RESULTS:
            self.place, self.product = Place.ITEM, self.catalogue[name.upper()]
        else:
            # a value two option names share belongs to the last of them, as in the original
            owners = [option for option, values in self._product.options.items() if name in values]
            self.options[owners[-1]] = name

    def _turn(self, name: str) -> None:
        if self.place is Place.RESULTS:
            self._show_results(self.query, self.page + (1 if name == pages.NEXT else -1))
        elif self.place is Place.ITEM:
            self._show_results(self.query, self.page)
        else:
            self.place = Place.ITEM

    def _show_results(self, query: str, page: int) -> None:
        self.place, self.query, self.page, self.product, self.options = Place.RESULTS, query, page, None, {}

    @property
    def _product(self) -> Product:
        assert self.product is not None
        return self.product

    @property
    def _body(self) -> pages.Body:
        if self.place is Place.RESULTS:
            return self.catalogue.results(self.query, self.page)
        if self.place is Place.ITEM:
            return self.catalogue.item(self._product)
        return pages.sub(self._product, self.sub_page)
