"""A catalogue that thousands of sessions share: look-up, search and page bodies.

Immutable to its users. What it remembers (ranked results, rendered bodies) are pure functions of its products, so
sharing it changes nothing but speed.
"""

from collections.abc import Sequence

from worldline.envs.webshop import pages
from worldline.envs.webshop.product import Product
from worldline.envs.webshop.ranking import Index

SEARCH_DEPTH = 50
"""How many hits a search keeps; the results come ten to a page."""
_REMEMBERED = 20_000


class Catalogue:
    """All products of a shop, searchable."""

    def __init__(self, products: Sequence[Product]) -> None:
        self.products = tuple(products)
        self._by_asin = {product.asin: product for product in self.products}
        self._index = Index({product.asin: product.searchable for product in self.products})
        self._hits: dict[str, tuple[Product, ...]] = {}
        self._results: dict[tuple[str, int], pages.Body] = {}
        self._items: dict[str, pages.Body] = {}

    def __len__(self) -> int:
        return len(self.products)

    def __getitem__(self, asin: str) -> Product:
        return self._by_asin[asin]

    def search(self, query: str) -> tuple[Product, ...]:
        """The best `SEARCH_DEPTH` products for `query`, best first."""
        hits = self._hits.get(query)
        if hits is None:
            if len(self._hits) >= _REMEMBERED:
                self._hits.clear()
            hits = tuple(self._by_asin[asin] for asin in self._index.search(query, SEARCH_DEPTH))
            self._hits[query] = hits
        return hits

    def results(self, query: str, page: int) -> pages.Body:
        """Page `page` (from 1) of the results for `query`."""
        body = self._results.get((query, page))
        if body is None:
            if len(self._results) >= _REMEMBERED:
                self._results.clear()
            body = pages.results(self.search(query), page)
            self._results[query, page] = body
        return body

    def item(self, product: Product) -> pages.Body:
        """The page of `product`."""
        body = self._items.get(product.asin)
        if body is None:
            body = self._items[product.asin] = pages.item(product)
        return body
