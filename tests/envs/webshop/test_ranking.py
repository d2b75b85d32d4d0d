"""Search against textbook BM25 in double precision, lengths and rankings against Lucene's."""

import hashlib
import json
import math
import random
from collections import Counter
from pathlib import Path

import pytest

from worldline.envs.webshop import WebShopWorld
from worldline.envs.webshop.analysis import terms
from worldline.envs.webshop.ranking import Index, coded_length


def test_lengths_are_kept_as_lucenes_byte_keeps_them() -> None:
    kept = sorted({coded_length(n) for n in range(400)})
    table = [
        *range(40),
        40,
        42,
        44,
        46,
        48,
        50,
        52,
        54,
        56,
        60,
        64,
        68,
        72,
        76,
        80,
        84,
        88,
        96,
        104,
        112,
        120,
        128,
        136,
    ]
    assert kept == [*table, 144, 152, 168, 184, 200, 216, 232, 248, 264, 280, 312, 344, 376]
    assert all(coded_length(n) == max(k for k in kept if k <= n) for n in range(400))


def textbook(documents: dict[str, str], query: str) -> dict[str, float]:
    counts = {name: Counter(terms(text)) for name, text in documents.items()}
    average = sum(count.total() for count in counts.values()) / sum(count.total() > 0 for count in counts.values())
    total = sum(count.total() > 0 for count in counts.values())
    scores: dict[str, float] = {}
    for term in terms(query):
        having = [name for name in counts if counts[name][term]]
        idf = math.log(1 + (total - len(having) + 0.5) / (len(having) + 0.5))
        for name in having:
            frequency, length = counts[name][term], coded_length(counts[name].total())
            gain = idf * frequency / (frequency + 0.9 * (0.6 + 0.4 * length / average))
            scores[name] = scores.get(name, 0.0) + gain
    return scores


@pytest.mark.parametrize("seed", range(20))
def test_search_ranks_as_textbook_bm25(seed: int) -> None:
    rng = random.Random(seed)
    words = [f"w{i}x" for i in range(30)]
    documents = {f"D{i:03d}": " ".join(rng.choices(words, k=rng.choice((0, 1, 5, 60)))) for i in range(80)}
    index = Index(documents)
    for _ in range(10):
        query = " ".join(rng.choices([*words, "unheard"], k=rng.randint(1, 6)))
        scores = textbook(documents, query)
        hits = index.search(query, 50)
        assert len(hits) == min(50, len(scores))
        ranked = sorted(scores, key=lambda name: (-round(scores[name], 5), name))
        assert [round(scores[name], 5) for name in hits] == [round(scores[name], 5) for name in ranked[:50]]


def test_ties_go_by_document_id_and_nothing_found_is_nothing() -> None:
    index = Index({"B": "red shoe", "A": "red shoe", "C": "blue hat"})
    assert index.search("shoe", 10) == ["A", "B"]
    assert index.search("shoe", 1) == ["A"]
    assert index.search("zebra the", 10) == []
    assert Index({}).search("shoe", 10) == []


@pytest.mark.data
def test_ranking_of_real_queries_is_anserinis(shared_data: Path) -> None:
    """The digest is of Anserini 0.22.1's (Lucene 9.5) top 50 of every recorded human query, in order."""
    folder = shared_data / "webshop"
    catalogue = WebShopWorld(folder).catalogue
    queries = [query for some in json.loads((folder / "goal_query_map.json").read_text()).values() for query in some]
    lines = [" ".join(product.asin for product in catalogue.search(query.lower())) for query in queries]
    assert len(lines) == 2197
    assert (
        hashlib.sha256("\n".join(lines).encode()).hexdigest()
        == "18858e9662d021d69d8655d6005a3d22282102155126ab62fea0e1ac54f23c7b"
    )
