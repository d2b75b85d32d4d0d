"""Questions with their accepted answers, and the files they come in.

A row needs `question` and one of `answers`, `golden_answers` or `answer` (with `answer_aliases`); `id`, `dataset` and
`split` are kept where given. Paragraphs that come along are read from HotpotQA's `context` or MuSiQue's `paragraphs`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worldline.envs.jsonlines import rows_of, stem
from worldline.envs.searchqa.passage import Passage
from worldline.types import InputError


@dataclass(frozen=True, slots=True)
class Question:
    """One task. `passages` are the paragraphs it brings along, where it does (HotpotQA's distractor setting)."""

    id: str
    text: str
    answers: tuple[str, ...]
    split: str
    dataset: str = ""
    passages: tuple[Passage, ...] = ()


def holds_questions(file: Path) -> bool:
    """Is this a file of questions (and not of passages)?"""
    return any("question" in row for _, row in _head(file))


def read_questions(files: Iterable[Path], dataset: str = "") -> list[Question]:
    """The questions of all files, of one data set if `dataset` is given, in the order of the files."""
    by_id: dict[str, Question] = {}
    datasets: set[str] = set()
    for file in files:
        for index, (place, row) in enumerate(rows_of(file)):
            question = _question(place, row, stem(file), index)
            datasets.add(question.dataset)
            if question.id in by_id:
                raise InputError(f"{place}: a second question with id '{question.id}'")
            if dataset in ("", question.dataset):
                by_id[question.id] = question
    if not by_id:
        raise InputError(f"no question of data set '{dataset}': there are {', '.join(sorted(datasets)) or 'none'}")
    return list(by_id.values())


def _head(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from (row for row, _ in zip(rows_of(file), range(1), strict=False))


def _question(place: str, row: dict[str, Any], name: str, index: int) -> Question:
    text = row.get("question")
    given = row.get("answers", row.get("golden_answers", row.get("answer")))
    answers = [given] if isinstance(given, str) else given
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{place}: no text under 'question'")
    if not isinstance(answers, list) or not answers or not all(isinstance(answer, str) for answer in answers):
        raise InputError(f"{place}: no answer under 'answers', 'golden_answers' or 'answer'")
    dataset = str(row.get("dataset", name))
    return Question(
        id=f"{dataset}/{row.get('id', index)}",
        text=" ".join(text.split()),
        answers=tuple(dict.fromkeys([*answers, *row.get("answer_aliases", ())])),
        split=str(row.get("split", name)),
        dataset=dataset,
        passages=tuple(_paragraphs(place, row)),
    )


def _paragraphs(place: str, row: dict[str, Any]) -> Iterator[Passage]:
    try:
        for paragraph in row.get("paragraphs", ()):
            yield Passage(paragraph["title"], paragraph["paragraph_text"])
        context = row.get("context", ())
        pairs = zip(context["title"], context["sentences"], strict=True) if isinstance(context, dict) else context
        for title, sentences in pairs:
            yield Passage(title, "".join(sentences))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{place}: paragraphs in neither HotpotQA's nor MuSiQue's form ({error!r})") from None
