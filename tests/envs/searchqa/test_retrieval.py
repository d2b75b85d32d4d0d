"""BM25 against the formula written out, and ties in corpus order."""

import math
import random

import pytest

from worldline.envs.searchqa.passage import Passage, read, write
from worldline.envs.searchqa.retrieval import Bm25, words


def brute_force(passages: list[Passage], query: str) -> list[float]:
    """BM25 with k1 = 0.9, b = 0.4 and Lucene's idf, passage by passage."""
    documents = [words(f"{passage.title} {passage.text}") for passage in passages]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        score = 0.0
        for word in words(query):
            holders = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - holders + 0.5) / (holders + 0.5))
            count = document.count(word)
            score += idf * count / (count + 0.9 * (1 - 0.4 + 0.4 * len(document) / mean))
        scores.append(score)
    return scores


def test_ranking_is_the_formulas() -> None:
    draw = random.Random(0)
    lexicon = [f"w{number}" for number in range(30)]
    passages = [Passage(f"t{n}", " ".join(draw.choices(lexicon, k=draw.randint(3, 30)))) for n in range(60)]
    engine = Bm25.of(passages)
    for _ in range(40):
        query = " ".join(draw.choices(lexicon, k=draw.randint(1, 5)))
        scores = brute_force(passages, query)
        ranking = engine.ranking(query, 10)
        best = sorted(scores, reverse=True)[: len(ranking)]
        assert [scores[index] for index in ranking] == pytest.approx(best, rel=1e-4)


def test_ties_come_in_corpus_order_and_strangers_not_at_all() -> None:
    engine = Bm25.of([Passage(f"t{n}", "red fox" if n % 2 else "blue owl") for n in range(9)])
    assert engine.ranking("fox", 3) == [1, 3, 5]
    assert engine.ranking("fox", 20) == [1, 3, 5, 7]
    assert engine.search("heron", 3) == ()
    assert engine.search("", 3) == ()


def test_what_is_written_for_the_agent_reads_back() -> None:
    passages = [Passage("Oslo (city)", "Oslo lies\non a fjord."), Passage("Bergen", "It rains.")]
    text = write(passages)
    assert text.startswith("<information>Doc 1(Title: Oslo (city)) Oslo lies on a fjord.\nDoc 2")
    assert read(text) == [Passage("Oslo (city)", "Oslo lies on a fjord."), passages[1]]
    assert read(write([])) == []
