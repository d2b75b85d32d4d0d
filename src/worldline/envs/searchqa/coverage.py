"""For which share of questions a corpus holds the answer (what an agent can find at most), and a search brings it."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from worldline.envs.searchqa.match import normalise
from worldline.envs.searchqa.passage import Passage
from worldline.envs.searchqa.questions import Question
from worldline.envs.searchqa.retrieval import Retriever


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of the questions whose answer is in the corpus, and in the best k passages of one search."""

    questions: int
    in_corpus: float
    recall: dict[int, float]


def measure(
    questions: Sequence[Question], passages: Iterable[Passage], engine: Retriever, depths: Collection[int] = (3, 20)
) -> Coverage:
    """Searches with each question's own words, as the first search of a simple agent would."""
    present = _present({normalise(answer) for question in questions for answer in question.answers}, passages)
    hits = dict.fromkeys(depths, 0)
    for question in questions:
        golds = {normalise(answer) for answer in question.answers}
        rank = _first_hit(golds, engine.search(question.text, max(depths)))
        for depth in depths:
            hits[depth] += rank < depth
    held = sum(any(normalise(answer) in present for answer in question.answers) for question in questions)
    count = len(questions)
    return Coverage(count, held / count, {depth: hit_count / count for depth, hit_count in hits.items()})


def answerable(question: Question, engine: Retriever | None) -> bool:
    """Whether an answer stands in the paragraphs that the question brings, or, with an engine, in the best passages for
    the answer itself: no walk through the corpus, so one that is made of common words can be missed."""
    passages = (
        question.passages if engine is None else [p for gold in question.answers for p in engine.search(gold, 20)]
    )
    return bool(_present({normalise(answer) for answer in question.answers}, passages))


def _first_hit(golds: set[str], passages: Sequence[Passage]) -> float:
    """The rank of the first passage with an answer; infinity if none has one."""
    return next((rank for rank, passage in enumerate(passages) if _present(golds, [passage])), float("inf"))


def _present(golds: set[str], passages: Iterable[Passage]) -> set[str]:
    """Those of `golds` (normalised) that occur in a passage as whole words. Yes and no are never looked up."""
    by_first: dict[str, list[list[str]]] = {}
    for gold in golds - {"", "yes", "no"}:
        by_first.setdefault(gold.split()[0], []).append(gold.split())
    present: set[str] = set()
    for passage in passages:
        words = normalise(f"{passage.title} {passage.text}").split()
        for start in [at for at, word in enumerate(words) if word in by_first]:
            for gold_words in by_first[words[start]]:
                if words[start : start + len(gold_words)] == gold_words:
                    present.add(" ".join(gold_words))
    return present
