"""Dense retrieval: passages and queries as vectors of a sentence-transformers model, best cosine first.

The vectors are made once, kept with the corpus's index in half precision and memory-mapped; the search is exact.
For corpora of many millions a retriever server (`remote`) is the better tool.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from worldline.envs.searchqa.passage import Passage
from worldline.types import InputError

_BATCH = 256
_BLOCK = 65_536


class SentenceEncoder(Protocol):
    """The interface of sentence-transformers models."""

    def encode(self, sentences: list[str]) -> Any: ...


class Dense:
    """The passages nearest to a query."""

    def __init__(
        self, passages: Sequence[Passage], vectors: npt.NDArray[np.float16], encoder: SentenceEncoder, prefix: str = ""
    ):
        self._passages, self._vectors, self._encoder, self._prefix = passages, vectors, encoder, prefix

    def search(self, query: str, k: int) -> tuple[Passage, ...]:
        query_vector = _encoded(self._encoder, [self._prefix + query])[0]
        blocks = range(0, len(self._vectors), _BLOCK)
        scores = np.concatenate(
            [self._vectors[start : start + _BLOCK].astype(np.float32) @ query_vector for start in blocks]
        )
        best = np.argsort(-scores, kind="stable")[:k]
        return tuple(self._passages[int(index)] for index in best)


def open_dense(passages: Sequence[Passage], folder: Path, model: str) -> Dense:
    """Dense retrieval over the passages of an index folder, with the model of that name or path."""
    encoder = _loaded(model)
    e5 = "e5" in model.lower()  # trained with these words before every text
    file = folder / f"dense-{re.sub(r'[^A-Za-z0-9.]+', '-', model)}.npy"
    if not file.exists():
        made = file.with_suffix(f".{os.getpid()}.npy")
        np.save(made, embed(passages, encoder, "passage: " if e5 else ""))
        made.replace(file)
    return Dense(passages, np.load(file, mmap_mode="r"), encoder, "query: " if e5 else "")


def embed(passages: Sequence[Passage], encoder: SentenceEncoder, prefix: str = "") -> npt.NDArray[np.float16]:
    """The unit vectors of all passages."""
    parts = []
    for start in range(0, len(passages), _BATCH):
        texts = [f"{prefix}{passage.title} {passage.text}" for passage in passages[start : start + _BATCH]]
        parts.append(_encoded(encoder, texts).astype(np.float16))
    return np.concatenate(parts)


def _encoded(encoder: SentenceEncoder, texts: list[str]) -> npt.NDArray[np.float32]:
    vectors = np.array(encoder.encode(texts), dtype=np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors


def _loaded(model: str) -> SentenceEncoder:
    try:
        from sentence_transformers import SentenceTransformer
    except ModuleNotFoundError:
        raise InputError("dense retrieval needs sentence-transformers: pip install 'worldline[dense]'") from None
    try:
        encoder: SentenceEncoder = SentenceTransformer(model)
    except (OSError, ValueError) as error:
        raise InputError(f"retriever dense:{model}: cannot be loaded: {' '.join(str(error).split())}") from None
    return encoder
