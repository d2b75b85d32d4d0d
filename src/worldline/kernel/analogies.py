"""What an observation turns into, if it changes as another one has changed: `before` is to `after` as `now` is to what.

"The box holds a cup. On the table: a fork, a pan." turned into "The box holds a cup, a fork. On the table: a pan." What
such an answer has copied of the observation before it is copied of what is shown now, whatever stands in its place;
what it has put in is put in there, and what it has taken out is taken out, where the same words stand.
"""

import difflib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from worldline.kernel.edits import pieces

_LONGEST = 120
"""Pieces of a text that are compared."""
_COPIED, _ALIKE = 1 / 2, 1 / 3
"""The share of distinct pieces that an answer has in common with the observation before it; that, with the present."""
_DIGITS, _JOINING = 18, (".", ",")
"""Of the longest number that is moved; marks that make one number of two."""
Operation = tuple[str, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Transfer:
    """What `now` turns into, and how many of its words had to go that were not those which had to go before."""

    text: str
    replaced: int


@functools.lru_cache(maxsize=1 << 14)
def _pieces(text: str) -> tuple[str, ...]:
    """Words and marks, each with the space before it."""
    return tuple(pieces(f" {text}"))


@functools.lru_cache(maxsize=1 << 15)
def _operations(old: str, new: str, least: float) -> tuple[Operation, ...] | None:
    """How one text becomes the other; None where they share too little."""
    if max(len(old.split()), len(new.split())) > _LONGEST:  # a piece is a word between spaces, or less
        return None
    first, second = _pieces(old), _pieces(new)
    distinct, others = set(first), set(second)
    if max(len(first), len(second)) > _LONGEST or len(distinct & others) < least * max(len(distinct), len(others)):
        return None
    return tuple(difflib.SequenceMatcher(None, first, second, autojunk=False).get_opcodes())


@functools.lru_cache(maxsize=1 << 15)
def transferred(before: str, after: str, now: str) -> Transfer | None:
    """What `now` turns into if it changes as `before` changed into `after`; numbers change by the same difference.

    None where nothing was copied, the texts are too unlike, or what was taken out is not there.
    """
    if before == now:
        return None
    changes = _operations(before, after, _COPIED)
    if not changes or not (aligned := _operations(before, now, _ALIKE)):
        return None
    places = _Places.of(aligned, _pieces(now), changes)
    if places is None:
        return None
    old, new, out, replaced = _pieces(before), _pieces(after), list[str](), 0
    for tag, i, j, k, m in changes:
        if tag == "equal":
            for at in range(i, j):
                out += places.copied(at)
            continue
        here = places.taken(i, j)
        if here is None or (tag == "delete" and here != old[i:j]):
            return None
        parts = _parts_of_a_number(old, i, j) or _parts_of_a_number(new, k, m)
        moved = None if parts else _moved(old[i:j], new[k:m], here)
        replaced += sum(one != other for one, other in zip(old[i:j], here, strict=False)) if moved is None else 0
        out += new[k:m] if moved is None else moved
    return Transfer("".join(out).strip(), replaced)


@dataclass(frozen=True, slots=True)
class _Places:
    """What stands now in the place of each piece of `before`."""

    there: Sequence[tuple[str, ...]]
    """Of the first of several pieces that have one place, all that stands there."""
    parted: Sequence[bool]
    """Whether each piece begins a place: what is taken out must begin and end with one."""
    added: dict[int, tuple[str, ...]]
    """What stands now beside each piece that is copied, and did not before: after it, or (-1 - piece) before it."""

    @classmethod
    def of(cls, aligned: Sequence[Operation], now: Sequence[str], changes: Sequence[Operation]) -> "_Places | None":
        """None where something stands now in the midst of what is taken out."""
        size = aligned[-1][2]
        kept = [False] * (size + 1)
        for tag, i, j, _, _ in changes:
            kept[i:j] = [tag == "equal"] * (j - i)
        there: list[tuple[str, ...]] = [()] * size
        parted, added = [True] * (size + 1), dict[int, tuple[str, ...]]()
        for tag, i, j, k, m in aligned:
            if tag == "insert":
                if i and kept[i - 1]:
                    added[i - 1] = tuple(now[k:m])
                elif kept[i]:
                    added[-1 - i] = tuple(now[k:m])
                else:
                    return None
            elif j - i == m - k:
                there[i:j] = [(piece,) for piece in now[k:m]]
            else:
                there[i] = tuple(now[k:m])
                parted[i + 1 : j] = [False] * (j - i - 1)
        return cls(there, parted, added)

    def copied(self, at: int) -> Iterator[str]:
        """What stands now in the place of a piece, and beside it."""
        yield from self.added.get(-1 - at, ())
        yield from self.there[at]
        yield from self.added.get(at, ())

    def taken(self, first: int, end: int) -> tuple[str, ...] | None:
        """What stands now in the place of some pieces; None where nothing does, or it is a part of something."""
        if not (self.parted[first] and self.parted[end]):
            return None
        here = tuple(piece for at in range(first, end) for piece in self.there[at])
        return here if here or first == end else None


def _moved(old: Sequence[str], new: Sequence[str], here: Sequence[str]) -> list[str] | None:
    """Numbers in the place of numbers, by the same difference; None where these are no numbers."""
    if not (len(old) == len(new) == len(here) and all(map(_numeric, (*old, *new, *here)))):
        return None
    moved = []
    for before, after, now in zip(old, new, here, strict=True):
        value = max(int(now) + int(after) - int(before), 0)
        padded = max(len(one.strip()) if one.strip().startswith("0") else 1 for one in (before, after, now))
        moved.append(f"{after[: -len(after.strip())]}{str(value).zfill(padded)}")
    return moved


def _numeric(piece: str) -> bool:
    return piece.strip().isdecimal() and len(piece.strip()) <= _DIGITS


def _parts_of_a_number(pieces: Sequence[str], first: int, end: int) -> bool:
    """Whether a point or a comma joins these to digits: "05" of "1.05", or "990" of "1,990"."""
    before, after = pieces[max(0, first - 2) : first + 1], pieces[max(0, end - 1) : end + 2]
    return any(
        len(three) == 3 and three[1] in _JOINING and three[0].strip().isdecimal() and three[2].isdecimal()
        for three in (before, after)
    )
