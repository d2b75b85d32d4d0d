"""Search engines: what a query finds. BM25 in process; `remote` and `dense` hold the others."""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

import bm25s
import numpy as np
import numpy.typing as npt
from bm25s.stopwords import STOPWORDS_EN

from worldline.envs.searchqa.passage import Passage

_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(STOPWORDS_EN)


class Retriever(Protocol):
    """Finds passages."""

    def search(self, query: str, k: int) -> tuple[Passage, ...]:
        """The `k` best passages for `query`, best first; fewer where fewer match."""


class Bm25:
    """BM25 over passages held in memory (or memory-mapped: `corpus.open_index`), ties in corpus order."""

    def __init__(self, index: bm25s.BM25, passages: Sequence[Passage]) -> None:
        self._index = index
        self.passages = passages

    @classmethod
    def of(cls, passages: Sequence[Passage]) -> "Bm25":
        return cls(build(f"{passage.title} {passage.text}" for passage in passages), passages)

    def search(self, query: str, k: int) -> tuple[Passage, ...]:
        return tuple(self.passages[index] for index in self.ranking(query, k))

    def ranking(self, query: str, k: int) -> list[int]:
        """The corpus positions of the `k` best passages that share a word with the query."""
        ids = self._index.get_tokens_ids(words(query))
        if not ids:
            return []
        scores: npt.NDArray[np.float32] = self._index.get_scores_from_ids(ids)
        kept = min(k, len(scores))
        bar = max(np.partition(scores, -kept)[-kept], np.finfo(np.float32).tiny)
        best = np.flatnonzero(scores >= bar)
        order = np.lexsort((best, -scores[best]))[:kept]
        return [int(index) for index in best[order]]


def build(texts: Iterable[str]) -> bm25s.BM25:
    """A BM25 index of `texts` (Lucene's variant, k1 0.9, b 0.4: what Search-R1's BM25 uses)."""
    vocabulary: dict[str, int] = {}
    documents = [[vocabulary.setdefault(word, len(vocabulary)) for word in words(text)] for text in texts]
    vocabulary.setdefault("", len(vocabulary))
    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    index.index((documents, vocabulary), show_progress=False)
    return index


def words(text: str) -> list[str]:
    """The words that a query or a passage is matched on."""
    return [word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS]
