"""BM25 exactly as Lucene computes it, without Java: the ranking of the original WebShop's search (Anserini's default).

k1 = 0.9, b = 0.4; document lengths pass through Lucene's one-byte code, idf and scores are 32-bit floats summed in
double precision, ties go by document id. What is analysed how is in `analysis`.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from worldline.envs.webshop.analysis import terms

K1, B = np.float32(0.9), np.float32(0.4)
_EXACT_LENGTHS = 24
"""Lengths below this are stored exactly, the rest with four significant bits."""


class Index:
    """An inverted index of named documents."""

    def __init__(self, documents: Mapping[str, str]) -> None:
        names = sorted(documents)  # position is rank among ties
        self._names = names
        counts = [Counter(terms(documents[name])) for name in names]
        lengths = np.array([count.total() for count in counts], dtype=np.int64)
        indexed = max(int((lengths > 0).sum()), 1)
        norms = _inverse_norms(lengths, np.float32(lengths.sum() / indexed))
        postings: dict[str, tuple[list[int], list[int]]] = {}
        for i, count in enumerate(counts):
            for term, frequency in count.items():
                where, how_often = postings.setdefault(term, ([], []))
                where.append(i)
                how_often.append(frequency)
        self._postings: dict[str, tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], np.float32]] = {}
        one = np.float32(1)
        for term, (where, how_often) in postings.items():
            rows = np.array(where, dtype=np.int32)
            saturation = one + np.array(how_often, dtype=np.float32) * norms[rows]
            n = len(where)
            idf = np.float32(np.log(1 + (indexed - n + 0.5) / (n + 0.5)))
            self._postings[term] = (rows, saturation, idf)

    def search(self, query: str, k: int) -> list[str]:
        """The names of the best `k` documents that share a term with `query`, best first."""
        scores = np.zeros(len(self._names))
        for term, times in Counter(terms(query)).items():
            posting = self._postings.get(term)
            if posting is not None:
                rows, saturation, idf = posting
                weight = np.float32(times) * idf
                scores[rows] += weight - weight / saturation
        rounded = scores.astype(np.float32)
        hits = np.flatnonzero(rounded)
        best = hits[np.argsort(-rounded[hits], kind="stable")[:k]]
        return [self._names[i] for i in best]


def coded_length(length: int) -> int:
    """The length Lucene remembers for a document of `length` terms (SmallFloat's one-byte code, decoded)."""
    if length < _EXACT_LENGTHS:
        return length
    rest = length - _EXACT_LENGTHS
    shift = max(rest.bit_length() - 4, 0)
    return _EXACT_LENGTHS + (rest >> shift << shift)


def _inverse_norms(lengths: npt.NDArray[np.int64], average: np.float32) -> npt.NDArray[np.float32]:
    coded = np.array([coded_length(int(length)) for length in lengths], dtype=np.float32)
    one = np.float32(1)
    norms: npt.NDArray[np.float32] = one / (K1 * ((one - B) + B * coded / max(average, one)))
    return norms
