"""Text to token ids by stable hashing: nothing is learned or stored, and every machine agrees (ADWM appendix E.6).

Words and punctuation marks, lower-cased, fall into `buckets` - 1 buckets; id 0 is padding. An over-long text keeps
its beginning and its end, where the task and the newest lines stand.
"""

import functools
import hashlib
import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

PAD = 0
_WORD = re.compile(r"\w+|[^\w\s]")
_LONGEST = 200_000
"""Characters looked at: a pathological observation costs no more than this at either end."""


def words(text: str) -> list[str]:
    """The lower-cased words and punctuation marks of `text`, in order."""
    if len(text) > 2 * _LONGEST:
        text = f"{text[:_LONGEST]} {text[-_LONGEST:]}"
    return _WORD.findall(text.lower())


@functools.lru_cache(maxsize=1 << 18)
def stable_hash(key: str) -> int:
    """A 64-bit hash that does not change between processes, versions or machines."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class HashTokenizer:
    """`buckets` ids, at most `length` tokens a text."""

    def __init__(self, buckets: int, length: int) -> None:
        self.buckets = buckets
        self.length = length

    def encode(self, text: str) -> Ids:
        """The ids of one text; an empty text is one padding token, so that every text has a length."""
        found = words(text)
        if len(found) > self.length:
            head = self.length // 2
            found = found[:head] + found[head - self.length :]
        ids = [1 + stable_hash(word) % (self.buckets - 1) for word in found]
        return np.array(ids or [PAD], dtype=np.int64)


def padded(rows: Sequence[Ids]) -> Ids:
    """Rows of different length as one (n, longest) array."""
    out = np.full((len(rows), max((len(row) for row in rows), default=1)), PAD, dtype=np.int64)
    for index, row in enumerate(rows):
        out[index, : len(row)] = row
    return out


def marks(ids: Ids, *references: Ids) -> Ids:
    """Per token, one bit for each reference text it occurs in: how a network sees that two texts name one thing."""
    bits = np.zeros(ids.shape, dtype=np.int64)
    for power, reference in enumerate(references):
        bits |= (np.isin(ids, reference) & (ids != PAD)).astype(np.int64) << power
    return bits
