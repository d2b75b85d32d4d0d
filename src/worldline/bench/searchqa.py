"""What a corpus is good for: time to index it, queries per second, how many answers it holds and a search brings."""

import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from worldline.bench import Figures
from worldline.config import Config, option, positional
from worldline.envs.jsonlines import files_of
from worldline.envs.searchqa.corpus import open_index
from worldline.envs.searchqa.coverage import measure
from worldline.envs.searchqa.questions import Question, read_questions


class SearchQABenchConfig(Config):
    """Index a corpus by BM25 (anew, in a temporary folder), search it with every question, and report by data set the
    share of questions whose answer stands somewhere in the corpus, in the best 3 passages and in the best 20.
    """

    examples: ClassVar[tuple[str, ...]] = ("worldline bench searchqa wiki.jsonl.gz nq_dev.jsonl hotpotqa_dev.jsonl",)

    corpus: Path = positional(help="passages: a .jsonl or .jsonl.gz file, or a folder of them")
    questions: tuple[Path, ...] = positional(help="question files")
    queries: int = option(1_000, help="queries to time", ge=1)


Settings = SearchQABenchConfig


def run(settings: SearchQABenchConfig) -> Figures:
    groups: defaultdict[str, list[Question]] = defaultdict(list)
    for question in read_questions(settings.questions):
        groups[f"{question.dataset} ({question.split})"].append(question)
    with TemporaryDirectory() as folder:
        started = time.perf_counter()
        engine = open_index(files_of(settings.corpus), Path(folder) / "index")
        built = time.perf_counter()
        open_index(files_of(settings.corpus), Path(folder) / "index")
        opened = time.perf_counter()
        texts = [question.text for group in groups.values() for question in group][: settings.queries]
        for text in texts:
            engine.search(text, 3)
        searched = time.perf_counter()
        rows = []
        for name, group in groups.items():
            measured = measure(group, engine.passages, engine)
            recall = {f"recall@{depth}": share for depth, share in measured.recall.items()}
            rows.append({"questions": name, "count": measured.questions, "in_corpus": measured.in_corpus, **recall})
        figures = {
            "passages": float(len(engine.passages)),
            "index_seconds": built - started,
            "reopen_seconds": opened - built,
            "queries_per_second": len(texts) / (searched - opened),
        }
    return Figures(figures, rows)
