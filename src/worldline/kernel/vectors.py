"""Texts as vectors that can be compared by the thousand: words, weighed by how rare they are, and numbers.

Words are hashed into a fixed width, so the cost of a comparison depends neither on the vocabulary nor on the log.
"""

import re
from collections import Counter
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from worldline.kernel.numerals import NUMBER, size
from worldline.kernel.words import stable_hash

Array = npt.NDArray[np.float32]
Ids = npt.NDArray[np.signedinteger]
WIDTH = 128
NUMBERS = 4
"""Numbers of a text that are compared."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(NUMBER)


class WordWeights:
    """log(1 + texts / texts with the word), as signed entries of a vector."""

    def __init__(self, texts: Iterable[str]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for text in texts:
            counts.update(set(_WORD.findall(text.lower())))
            total += 1
        self._total, self._counts = max(total, 1), counts
        self._entries: dict[str, tuple[int, float]] = {}

    def vector(self, text: str) -> Array:
        """A unit vector (WIDTH,) of the distinct words; zeros for no words."""
        out = np.zeros(WIDTH, np.float32)
        for word in dict.fromkeys(_WORD.findall(text.lower())):
            entry = self._entries.get(word)
            if entry is None:
                code = stable_hash(word)
                weight = float(np.log1p(self._total / self._counts.get(word, 1)))
                entry = self._entries[word] = (code % WIDTH, weight if code >> 32 & 1 else -weight)
            out[entry[0]] += entry[1]
        return unit(out)

    def rarity(self, word: str) -> float:
        """The share of texts that do not have the word."""
        return 1.0 - self._counts.get(word, 0) / self._total


def used_columns(ids: Ids, width: int) -> tuple[Ids, Ids]:
    """Which numbers below `width` occur, and the place of each among them. As `np.unique`, without sorting."""
    used = np.flatnonzero(np.bincount(ids, minlength=width))
    place = np.zeros(width, np.int32)
    place[used] = np.arange(len(used))
    return used, place[ids]


def distinct_columns(features: csr_matrix) -> tuple[csr_matrix, Ids, Ids]:
    """The distinct columns of a matrix of ones, which of them each column is, and how many columns each stands for.

    Columns that are alike get the same weight: k of them with one prior each are one with a k-fold variance.
    """
    columns = features.tocsc()
    columns.sort_indices()
    marks = np.random.default_rng(0).integers(1, 1 << 63, features.shape[0], np.uint64)
    sums = np.add.reduceat(marks[columns.indices], columns.indptr[:-1])
    _, first, of = np.unique(sums, return_index=True, return_inverse=True)
    return columns[:, first].tocsr(), of, np.bincount(of)


def unit(vector: Array) -> Array:
    """The vector at length one; zeros stay."""
    return vector / max(float(np.sqrt(vector @ vector)), 1e-6)


class TextTable:
    """Distinct texts with a number each, their vectors, and the numbers they name."""

    def __init__(self, weights: WordWeights) -> None:
        self.texts: list[str] = []
        self._weights = weights
        self._ids: dict[str, int] = {}
        self._vectors = np.zeros((256, WIDTH), np.float32)
        self._numbers = np.full((256, NUMBERS + 1), np.nan)

    def id(self, text: str) -> int:
        """The text's number; a new one for a new text."""
        at = self._ids.get(text)
        if at is not None:
            return at
        at = self._ids[text] = len(self.texts)
        self.texts.append(text)
        if at == len(self._vectors):
            self._vectors = np.concatenate([self._vectors, np.zeros_like(self._vectors)])
            self._numbers = np.concatenate([self._numbers, np.full_like(self._numbers, np.nan)])
        self._vectors[at] = self._weights.vector(text)
        values = [size(value) for value in _NUMBER.findall(text)]
        self._numbers[at, 0] = len(values)
        self._numbers[at, 1 : 1 + min(len(values), NUMBERS)] = values[:NUMBERS]
        return at

    def vector(self, at: int) -> Array:
        """The text's unit vector."""
        out: Array = self._vectors[at]
        return out

    def numbers(self, at: int) -> npt.NDArray[np.float64]:
        """The numbers that the text names, in order, at most NUMBERS."""
        row = self._numbers[at, 1:]
        out: npt.NDArray[np.float64] = row[~np.isnan(row)]
        return out

    def cosines(self, at: int, others: npt.NDArray[np.int64]) -> Array:
        """How alike the words of text `at` and of each of the others are, -1 to 1."""
        out: Array = self._vectors[others] @ self._vectors[at]
        return out

    def number_gaps(self, at: int, others: npt.NDArray[np.int64]) -> Array:
        """Mean absolute difference between the numbers of two texts; infinite where they do not name as many."""
        mine, theirs = self._numbers[at], self._numbers[others]
        if not mine[0]:
            return np.where(theirs[:, 0] == 0, 0.0, np.inf).astype(np.float32)
        used = slice(1, 1 + min(int(mine[0]), NUMBERS))
        apart = np.abs(theirs[:, used] - mine[used])
        gaps = np.add.reduce(apart, 1) / apart.shape[1]
        gaps[theirs[:, 0] != mine[0]] = np.inf
        out: Array = gaps.astype(np.float32)
        return out
