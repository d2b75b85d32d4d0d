"""The words of a text, and a hash of them that every machine agrees on."""

import functools
import hashlib
import re

_WORD = re.compile(r"\w+|[^\w\s]")
_LONGEST = 200_000
"""Characters looked at: a pathological observation costs no more than this at either end."""


def words(text: str) -> list[str]:
    """The lower-cased words and punctuation marks of `text`, in order."""
    if len(text) > 2 * _LONGEST:
        text = f"{text[:_LONGEST]} {text[-_LONGEST:]}"
    return _WORD.findall(text.lower())


@functools.lru_cache(maxsize=1 << 15)
def vocabulary(text: str) -> frozenset[str]:
    """The distinct words of `text`."""
    return frozenset(words(text))


def overlap(text: str, other: str) -> float:
    """The words that both texts have, as a share of those that either has."""
    first, second = vocabulary(text), vocabulary(other)
    return len(first & second) / max(1, len(first | second))


@functools.lru_cache(maxsize=1 << 18)
def stable_hash(key: str) -> int:
    """A 64-bit hash that does not change between processes, versions or machines."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
