"""Enumerations in a text: "you see a cup 1, and a pen 2", "nothing" when empty. English, with indefinite articles."""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from worldline.adwm.grammar import Grammar

_ARTICLE = re.compile(r"\b(?:an?|some) ", re.IGNORECASE)
_EMPTY = re.compile(r"\bnothing\b")


@dataclass(frozen=True, slots=True)
class Listing:
    """The enumeration in a text: what stands before, the things, what stands after."""

    head: str
    things: tuple[str, ...]
    tail: str

    def text(self) -> str:
        named = [f"a {thing}" for thing in self.things] or ["nothing"]
        said = named[0] if len(named) == 1 else f"{', '.join(named[:-1])}, and {named[-1]}"
        return f"{self.head}{said}{self.tail}"


def listing(text: str, grammar: Grammar) -> Listing | None:
    """The enumeration in `text`, if there is one."""
    return _listing(text, grammar.things(text))


@functools.lru_cache(1 << 16)
def _listing(text: str, names: tuple[str, ...]) -> Listing | None:
    if names:
        lowered, longest_first = text.lower(), sorted(names, key=len, reverse=True)
        items: list[tuple[int, int, int]] = []
        for article in _ARTICLE.finditer(text):
            at = article.end()
            found = next((n for n in longest_first if lowered.startswith(n, at) and _ends(text, at + len(n))), None)
            if found is not None:
                items.append((article.start(), at, at + len(found)))
        if items:
            return Listing(text[: items[0][0]], tuple(text[at:end] for _, at, end in items), text[items[-1][2] :])
    empty = _EMPTY.search(text)
    return Listing(text[: empty.start()], (), text[empty.end() :]) if empty else None


def _ends(text: str, at: int) -> bool:
    """Whether a word ends at `at`."""
    return at >= len(text) or not (text[at].isalnum() or text[at] == "_")


def relisted(text: str, grammar: Grammar, gone: Iterable[str], there: Iterable[str]) -> str:
    """`text` with `gone` out of its enumeration and `there` in it, in order where it was ordered."""
    found = listing(text, grammar)
    if found is None:
        return text
    left = [thing for thing in found.things if thing not in set(gone)]
    new = [thing for thing in there if thing not in left]
    ordered = left == sorted(left)
    things = tuple(sorted([*left, *new]) if ordered else [*left, *new])
    return text if things == found.things else Listing(found.head, things, found.tail).text()
