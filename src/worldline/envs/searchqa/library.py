"""What a search QA world is made of: questions, and the engine that searches for their answers."""

from dataclasses import dataclass
from pathlib import Path

from worldline.cache_folder import cache_of
from worldline.envs.jsonlines import files_of
from worldline.envs.searchqa.corpus import open_index
from worldline.envs.searchqa.dense import open_dense
from worldline.envs.searchqa.encyclopedia import generate
from worldline.envs.searchqa.questions import Question, holds_questions, read_questions
from worldline.envs.searchqa.remote import RemoteRetriever
from worldline.envs.searchqa.retrieval import Bm25, Retriever
from worldline.types import InputError


@dataclass(frozen=True, slots=True)
class Library:
    """`engine` is None where every question is searched in the paragraphs it brings along."""

    questions: list[Question]
    engine: Retriever | None


@dataclass(frozen=True, slots=True)
class Search:
    """How real data is searched: the settings of that name."""

    corpus: Path | None
    index: Path | None
    retriever: str
    timeout: float


def generated_library(seed: int, entities: int) -> Library:
    """The embedded default."""
    made = generate(seed, entities)
    return Library(list(made.questions), Bm25.of(made.passages))


def open_library(data: Path, dataset: str, search: Search) -> Library:
    """The questions of a file or folder, with the engine that `search` describes."""
    files = files_of(data)
    question_files = [file for file in files if holds_questions(file)]
    if not question_files:
        raise InputError(f"{data}: holds no questions (rows with 'question' and 'answers')")
    questions = read_questions(question_files, dataset)
    beside = [file for file in files if file not in question_files]
    engine = _engine(search, files_of(search.corpus) if search.corpus else beside)
    bare = next((question for question in questions if not question.passages), None)
    if engine is None and bare:
        raise InputError(f"question '{bare.id}' brings no paragraphs: set the option 'corpus' to what it is to search")
    return Library(questions, engine)


def _engine(search: Search, passage_files: list[Path]) -> Retriever | None:
    if search.retriever.startswith(("http://", "https://")):
        server = RemoteRetriever(search.retriever, search.timeout)
        server.search("is anybody there?", 1)  # a wrong address fails here, before the first episode
        return server
    kind, _, model = search.retriever.partition(":")
    if kind not in ("bm25", "dense") or (kind == "dense") != bool(model):
        raise InputError(f"unknown retriever '{search.retriever}': bm25, dense:MODEL, or http://HOST:PORT/retrieve")
    if not passage_files:
        if kind == "dense":
            raise InputError("a dense retriever needs passages: set the option 'corpus'")
        return None
    folder = search.index or cache_of("searchqa", passage_files)
    lexical = open_index(passage_files, folder)
    return open_dense(lexical.passages, folder, model) if kind == "dense" else lexical
