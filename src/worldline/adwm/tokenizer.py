"""Text to token ids by stable hashing: nothing is learned or stored, and every machine agrees (ADWM appendix E.6).

Words and punctuation marks, lower-cased, fall into `buckets` - 1 buckets; id 0 is padding. An over-long text keeps
its beginning and its end, where the task and the newest lines stand.
"""

import functools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import numpy.typing as npt

from worldline.kernel.words import stable_hash, words

Ids = npt.NDArray[np.int64]

PAD = 0


class HashTokenizer:
    """`buckets` ids, at most `length` tokens a text."""

    def __init__(self, buckets: int, length: int) -> None:
        self.buckets = buckets
        self.length = length

    def encode(self, text: str) -> Ids:
        """The ids of one text; an empty text is one padding token, so that every text has a length."""
        return _encoded(text, self.buckets, self.length)


@functools.lru_cache(maxsize=1 << 13)
def _encoded(text: str, buckets: int, length: int) -> Ids:
    tokens = words(text)
    if len(tokens) > length:
        head = length // 2
        tokens = tokens[:head] + tokens[head - length :]
    ids = np.array([1 + stable_hash(word) % (buckets - 1) for word in tokens] or [PAD], dtype=np.int64)
    ids.flags.writeable = False  # it is shared by everyone who asks for this text
    return ids


def marks(ids: Ids, *references: AbstractSet[int]) -> Ids:
    """Per token, one bit for each reference text it occurs in: how a network sees that two texts name one thing."""
    tokens = ids.tolist()
    bits = [0] * len(tokens)
    for power, reference in enumerate(references):
        for at, token in enumerate(tokens):
            if token in reference and token != PAD:
                bits[at] |= 1 << power
    return np.array(bits, dtype=np.int64)


def padded_ids(rows: Sequence[Sequence[int] | Ids]) -> Ids:
    """Rows of ids of different length as one (n, longest) table, 0 where there is nothing."""
    table = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int64)
    for row, ids in zip(table, rows, strict=True):
        row[: len(ids)] = ids
    return table
