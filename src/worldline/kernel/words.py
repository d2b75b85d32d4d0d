"""The words of a text, and a hash of them that every machine agrees on."""

import functools
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping

_WORD = re.compile(r"\w+|[^\w\s]")
_ASCII_MARKS = re.findall(r"[^\w\s]", "".join(map(chr, range(128))))
_OTHER_MARK = re.compile(r"[^\x00-\x7f\w\s]")
_LONGEST = 200_000
"""Characters looked at: a pathological observation costs no more than this at either end."""
PLAIN = 2000
"""Characters of a text whose words are read one by one."""
_KEPT = 1 << 10
"""Vocabularies that are derived from others and kept at most until they are read."""
_derived: dict[str, frozenset[str]] = {}
_REMEMBERED = 200
"""Characters of the longest text whose hash is kept: a long one is hashed in less time than its room is worth."""


def words(text: str) -> list[str]:
    """The lower-cased words and punctuation marks of `text`, in order."""
    return _WORD.findall(_lowered(text))


def _lowered(text: str) -> str:
    if len(text) > 2 * _LONGEST:
        text = f"{text[:_LONGEST]} {text[-_LONGEST:]}"
    return text.lower()


@functools.lru_cache(maxsize=1 << 13)
def vocabulary(text: str) -> frozenset[str]:
    """The distinct words and punctuation marks of `text`: as of `words`, in half the time."""
    derived = _derived.pop(text, None)
    return _distinct_words(text) if derived is None else derived


@functools.lru_cache(maxsize=1 << 13)
def plain_words(text: str) -> frozenset[str]:
    """The distinct words and marks of the beginning of a text that are no numbers."""
    return frozenset(word for word in vocabulary(text[:PLAIN]) if not word[0].isdigit())


def derive_vocabulary(text: str, source: str, new: Mapping[str, str]) -> None:
    """Keep the vocabulary of a text that is `source` with some of its words, in lower case, exchanged for new texts."""
    words = vocabulary(source)
    gone = words.intersection(new)
    if len(_derived) >= _KEPT:
        _derived.clear()
    _derived[text] = words.difference(gone).union(*(vocabulary(new[old]) for old in gone))


def _distinct_words(text: str) -> frozenset[str]:
    lowered = _lowered(text)
    marks = [mark for mark in _ASCII_MARKS if mark in lowered]
    if not lowered.isascii():
        marks += set(_OTHER_MARK.findall(lowered))
    for mark in marks:
        lowered = lowered.replace(mark, " ")
    return frozenset(map(sys.intern, (*lowered.split(), *marks)))


def overlap(text: str, other: str) -> float:
    """The words that both texts have, as a share of those that either has."""
    first, second = vocabulary(text), vocabulary(other)
    return len(first & second) / max(1, len(first | second))


def at_least(counts: Mapping[str, int], most: int) -> Iterator[str]:
    """Each key with every number of times, up to `most`, that it was counted at least: 3 is more than 2, not other."""
    return (f"{key} {times}" for key, counted in counts.items() for times in range(min(counted, most)))


def stable_hash(key: str) -> int:
    """A 64-bit hash that does not change between processes, versions or machines."""
    return _remembered_hash(key) if len(key) <= _REMEMBERED else _hash(key)


@functools.lru_cache(maxsize=1 << 18)
def _remembered_hash(key: str) -> int:
    return _hash(key)


def _hash(key: str) -> int:
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
