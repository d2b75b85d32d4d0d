"""A small noun finder for product titles, in place of spaCy's tagger.

Titles are strings of nouns and names with a few describing words between them, so everything counts as a noun that
is a word and not in a short list of function words, adjectives and participles.
"""

import re
from functools import lru_cache

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
_FUNCTION_TEXT = """
a an and are as at be but by can for from he her his if in into is it its no not of off on or our out over she so
such that the their then there these they this to under up upon use used using via was we which who will with
without you your all any both each every more most other some than too very per plus also only just when while it's
don't 's s t
"""
_FUNCTION = frozenset(_FUNCTION_TEXT.split())
_DESCRIBING_TEXT = """
adjustable authentic automatic available beautiful best big black blue bright brown casual classic clean clear cold
comfortable compatible cool cute dark decorative deep different double dry durable easy elastic elegant extra fast
fine fit flat foldable free fresh full good great green grey gray handmade heavy high hot inner large leather-like
lightweight little long loose low lightly magnetic medium mini modern multi natural new nice non old organic outer
perfect personal portable premium professional pure purple quick real red removable replaceable retro reusable round
rustic safe sexy sharp short silent simple single slim small smart soft solid special spare square stackable
stainless straight strong stylish super sweet tall thick thin tiny traditional unique unscented universal vegan
vertical warm washable waterproof wet white wide wireless wooden yellow young breathable rechargeable resistant
insulated scented fragrant gentle crunchy dimmable padded quilted ergonomic quiet sturdy
"""
_DESCRIBING = frozenset(_DESCRIBING_TEXT.split())


@lru_cache(maxsize=1 << 14)
def title_nouns(title: str) -> tuple[str, ...]:
    """The nouns of `title`, lower case, in order, repeats kept."""
    found = (word for word in _WORD.findall(title.lower()) if len(word) > 1)
    return tuple(word for word in found if word not in _FUNCTION and word not in _DESCRIBING)
