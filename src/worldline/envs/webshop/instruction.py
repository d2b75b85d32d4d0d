"""What an agent can read out of a shopping instruction: the price limit, the words that count, queries to try.

Everything here looks at the instruction's text alone. The original accepts any `search[...]`; `queries` is the small
set of them that we list as admissible on the search page, so that random, choosing and epsilon-mixed policies are
defined there. A free query is accepted all the same.
"""

import re
from functools import lru_cache

_PRICE = re.compile(
    r"[,.;]?\s*(?:and |for |at |my |the |it should |please )*"
    r"(?:price lower than|under|less than|below|costs? less than|costing less than|budget is|(?:spend )?at most|up to)"
    r" \$?(\d+(?:\.\d+)?)(?: dollars?)?"
)
_LEAD = re.compile(
    r"^(?:(?:hello|hi|please|could you|can you|help me|i am|i'm|i'd like|i|we|would like|want|need|looking|searching"
    r"|trying|to|find|get|buy|order|show|me|for|a|an|some|the|pair of|new|my)\b[\s,]*)+"
)
_OPTIONS = re.compile(
    r"(?: with |, (?:and )?|; )(?:(?! with )[\w ])+: .*|(?:; | - |\. )(?:the |i'd |make |please ).*| in .*"
)
_DETAIL = re.compile(r" (?:with|for|that|which|in|by) .*|[;.:] .*| - .*")
_FILLER_TEXT = """
a an the i i'm im me my we you it its is are be am to of for with in on and or that which should would could can
like want need looking find get buy please help some pair new price lower than under less dollars dollar budget
below cost costs costing at most up by as make made one set choose hello hi show order searching trying spend comes
come has have having also preferably option options
"""
_FILLER = frozenset(_FILLER_TEXT.split())
_TOKEN = re.compile(r"[a-z0-9]+(?:[.'][a-z0-9]+)*")


def price_limit(instruction: str) -> float | None:
    """The price the instruction sets as its limit, if it does."""
    limits = _PRICE.findall(instruction.lower())
    return float(limits[-1]) if limits else None


@lru_cache(maxsize=1 << 14)
def queries(instruction: str) -> tuple[str, ...]:
    """A few search queries, each with more of the instruction's own words."""
    whole = _clean(_LEAD.sub("", without_price(instruction), count=1))
    described = _clean(_OPTIONS.sub("", whole, count=1))
    product = _clean(_DETAIL.sub("", described, count=1))
    kind = _clean(" ".join(product.rsplit(", ", 1)[-1].split()[-2:]))
    return tuple(dict.fromkeys(query for query in (kind, product, described, whole) if query)) or ("anything",)


@lru_cache(maxsize=1 << 14)
def product_words(instruction: str) -> frozenset[str]:
    """The words of the instruction that describe the product, without the price."""
    return words(without_price(instruction)) - _FILLER


def without_price(instruction: str) -> str:
    return _PRICE.sub("", instruction.lower())


def words(text: str) -> frozenset[str]:
    return frozenset(_TOKEN.findall(text.lower()))


def _clean(text: str) -> str:
    return " ".join(text.replace("[", " ").replace("]", " ").split()).strip(" ,.;:-")
