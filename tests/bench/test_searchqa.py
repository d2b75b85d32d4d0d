"""`bench searchqa` on a corpus and questions small enough to check by reading."""

import json
from pathlib import Path

import pytest

from worldline.cli import main


def test_it_reports_the_share_of_questions_that_the_corpus_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passages = [
        ("Owls", "Owls hunt mice at night."),
        ("Foxes", "Foxes live in dens."),
        ("Paris", "Paris is in France."),
    ]
    questions = [("What do owls hunt?", "mice"), ("Where do foxes live?", "dens"), ("Who wrote Hamlet?", "Shakespeare")]
    corpus, question_file = tmp_path / "corpus.jsonl", tmp_path / "zoo.jsonl"
    corpus.write_text("".join(json.dumps({"title": title, "text": text}) + "\n" for title, text in passages))
    question_file.write_text(
        "".join(json.dumps({"question": text, "answer": answer}) + "\n" for text, answer in questions)
    )
    assert main(["bench", "searchqa", str(corpus), str(question_file), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    (row,) = measured["rows"]
    assert measured["figures"]["passages"] == 3
    assert row["count"] == 3
    assert [row[name] for name in ("in_corpus", "recall@3", "recall@20")] == pytest.approx([2 / 3] * 3)
