"""Numbers in texts: found by the words around them, and moved as the log says they move.

A log shows "row 2, column 3" before and "row 3, column 3" after a step. Where this episode stands at "row 1, column 0",
the same step leads to "row 2, column 0": numbers with the same words around them change by the same difference.
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

AFTER_THE_FIRST_DIGIT = r"(?:\d{0,2}(?:,\d{3})+(?!,?\d)|\d*)(?:\.\d+)?"
"""The rest of a number: a comma before three digits joins them, as in 1,250."""
NUMBER = r"\d" + AFTER_THE_FIRST_DIGIT
"""As a pattern; what stands before it, a minus or a letter, is for its user to judge."""
_NUMBER = re.compile(f"({NUMBER})")
_WORD = re.compile(r"[^\W\d_]+|[^\w\s]")
_LARGEST = 1e30
"""A number with more digits is as large: what differs from it, and the square of that, are still numbers."""
Context = tuple[str, str]
"""The last word or mark before a number and the first one after it."""
Readings = Mapping[Context, float]
"""The last number read in each place."""


@dataclass(frozen=True)
class Numbered:
    """The text between numbers (one piece more than numbers), and the numbers as written."""

    pieces: tuple[str, ...]
    numbers: tuple[str, ...]

    @functools.cached_property
    def contexts(self) -> tuple[Context, ...]:
        """What stands around each number."""
        return _contexts(self.pieces)

    @functools.cached_property
    def unique(self) -> dict[Context, str]:
        """The numbers whose surroundings occur once."""
        times = Counter(self.contexts)
        return {c: number for c, number in zip(self.contexts, self.numbers, strict=True) if times[c] == 1}

    @functools.cached_property
    def values(self) -> dict[Context, float]:
        """The same as numbers."""
        return {context: size(number) for context, number in self.unique.items()}


@functools.lru_cache(maxsize=1 << 13)
def _contexts(pieces: tuple[str, ...]) -> tuple[Context, ...]:
    edges = [_edges(piece) for piece in pieces]
    return tuple((before[1], after[0]) for before, after in itertools.pairwise(edges))


@functools.lru_cache(maxsize=1 << 14)
def _edges(piece: str) -> tuple[str, str]:
    """The first and the last word or mark of a text: the same pieces come again in other texts."""
    first, last = _WORD.search(piece), _WORD.search(piece[::-1])
    return first[0].lower() if first else "", last[0][::-1].lower() if last else ""


@functools.lru_cache(maxsize=1 << 13)
def numbered(text: str) -> Numbered:
    """The text taken apart at its numbers."""
    parts = _NUMBER.split(text)
    return Numbered(tuple(parts[::2]), tuple(parts[1::2]))


def size(number: str) -> float:
    """Of a number as it is written."""
    return max(-_LARGEST, min(float(number.replace(",", "")), _LARGEST))


def decimals(number: str) -> int:
    """Digits after the point."""
    return len(number.partition(".")[2])


def written(value: float, *like: str) -> str:
    """A number with as many places as the most exact of others, as many digits as one that begins with 0, and commas
    as one of them has."""
    places = max(map(decimals, like))
    padded = max((len(number) for number in like if number.startswith("0") and "." not in number), default=1)
    grouped = "," if any("," in number for number in like) else ""
    return f"{value:{grouped}.{places}f}".zfill(padded)


def readings(text: str) -> dict[Context, float]:
    """The numbers of a text, by their place."""
    return dict(numbered(text).values)


def action_readings(action: str) -> dict[Context, float]:
    """The numbers of an action, by their order."""
    return {("", f"action {at}"): size(number) for at, number in enumerate(numbered(action).numbers)}


def first_readings(goal: str, observation: str) -> dict[Context, float]:
    """The numbers that an episode begins with."""
    return {(f"goal {before}", after): value for (before, after), value in readings(goal).items()} | readings(
        observation
    )


class NumberRanges:
    """The smallest and the largest number in each place of each wording that a log has."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._ranges: dict[str, list[tuple[float, float]]] = {}
        for text in set(texts):
            apart = numbered(text)
            values = [size(number) for number in apart.numbers]
            ranges = self._ranges.setdefault("#".join(apart.pieces), [(value, value) for value in values])
            for at, value in enumerate(values):
                ranges[at] = min(ranges[at][0], value), max(ranges[at][1], value)

    def words(self, text: str) -> bool:
        """Whether the log words a text like this."""
        return "#".join(numbered(text).pieces) in self._ranges

    def hold(self, text: str) -> bool:
        """The same, with every number in the range it has there."""
        apart = numbered(text)
        ranges = self._ranges.get("#".join(apart.pieces))
        if ranges is None:
            return False
        return all(low <= size(n) <= high for n, (low, high) in zip(apart.numbers, ranges, strict=True))


@functools.lru_cache(maxsize=1 << 15)
def shifted(answer: str, before: str, now: str) -> str | None:
    """A logged answer with its numbers moved from where they were `before` to where they are `now`.

    None where no number of the answer can be moved, or one would fall below zero.
    """
    there, here, then = numbered(before), numbered(now), numbered(answer)
    if not then.numbers or there.numbers == here.numbers:
        return None
    old, new = there.unique, here.unique
    moved = list(then.numbers)
    for at, (number, context) in enumerate(zip(then.numbers, then.contexts, strict=True)):
        if context not in old or context not in new:
            continue
        value = size(new[context]) + size(number) - size(old[context])
        if value < 0:
            return None
        moved[at] = written(value, number, old[context], new[context])
    if tuple(moved) == then.numbers:
        return None
    return "".join(piece + number for piece, number in zip(then.pieces, [*moved, ""], strict=True))


@functools.lru_cache(maxsize=1 << 15)
def between(answer: str, before: tuple[str, str], now: tuple[str, str]) -> str | None:
    """A logged answer with its one number where it lay between two others, moved to where these are now.

    `before` and `now` are what was seen and done: their last numbers are the two. None where there is no such number.
    """
    then = numbered(answer)
    old, new = [numbered(text).numbers for text in before], [numbered(text).numbers for text in now]
    if len(then.numbers) != 1 or not all(old) or not all(new):
        return None
    (seen, done), (seen_now, done_now) = ((size(a[-1]), size(b[-1])) for a, b in (old, new))
    if seen == done or (seen, done) == (seen_now, done_now):
        return None
    share = (size(then.numbers[0]) - done) / (seen - done)
    value = done_now + share * (seen_now - done_now)
    if not abs(value) <= _LARGEST:
        return None
    if "." not in then.numbers[0]:
        value = round(value)
    if value < 0:
        return None
    return f"{then.pieces[0]}{value:.10g}{then.pieces[1]}"


def number_gap(text: str, other: str) -> float:
    """The mean absolute difference between the numbers of two texts; infinite where they do not name as many."""
    first, second = numbered(text).numbers, numbered(other).numbers
    if len(first) != len(second):
        return float("inf")
    return sum(abs(size(a) - size(b)) for a, b in zip(first, second, strict=True)) / max(1, len(first))
