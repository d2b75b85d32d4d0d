"""Worlds from question files: every shape, the paragraphs a question brings, coverage, and clear lines."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from worldline import store
from worldline.collect import CollectConfig, collect
from worldline.envs import load
from worldline.envs.searchqa.coverage import answerable, measure
from worldline.envs.searchqa.passage import Passage
from worldline.envs.searchqa.questions import Question
from worldline.envs.searchqa.retrieval import Bm25
from worldline.envs.searchqa.world import SearchQAWorld
from worldline.types import InputError, Turn


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


HOTPOT = {
    "id": "h1",
    "question": "Where does the owl live?",
    "answer": "in the oak",
    "split": "dev",
    "context": [["Owl", ["The owl lives ", "in the oak."]], ["Fox", ["The fox lives in a den."]]],
}
MUSIQUE = {
    "id": "m1",
    "question": "Where does the fox live?",
    "answer": "a den",
    "answer_aliases": ["den"],
    "paragraphs": [{"title": "Fox", "paragraph_text": "The fox lives in a den."}],
}


def test_a_question_is_searched_in_its_own_paragraphs_where_there_is_no_corpus(tmp_path: Path) -> None:
    write(tmp_path / "hotpot.jsonl", HOTPOT)
    write(tmp_path / "musique.jsonl", MUSIQUE)
    world = load("searchqa", data=tmp_path)
    assert world.splits() == ("dev", "musique")
    assert world.get_task("dev", 0) == "hotpot/h1"
    environment = world.make()
    environment.reset(task="hotpot/h1")
    observation, *_ = environment.step("<search>owl</search>")
    assert observation == "<information>Doc 1(Title: Owl) The owl lives in the oak.</information>"
    assert environment.step("<answer>the den</answer>")[1] == 0.0
    environment.reset(task="musique/m1")
    assert environment.step("<answer>the den</answer>")[1] == 1.0
    with pytest.raises(InputError, match="no expert"):
        world.expert(Turn("search", "", "", None, ()))


def test_a_collection_says_how_many_answers_the_corpus_holds(tmp_path: Path) -> None:
    questions = [{"dataset": "q", "question": f"who is {n}?", "answers": [n, f"Sir {n}"]} for n in ("Ada", "Bo", "Cy")]
    data = write(tmp_path / "questions.jsonl", *questions)
    corpus = write(
        tmp_path / "corpus.jsonl",
        {"title": "Ada", "text": "A poem."},
        {"title": "Boring", "text": "Nobody says sir."},
        {"title": "Others", "text": "There was sir cy, too."},
    )
    options = {"corpus": str(corpus), "index": str(tmp_path / "index")}
    play = {"env": "searchqa", "data": data, "options": options, "policy": "random", "out": tmp_path / "log"}
    assert collect(CollectConfig.model_validate({**play, "episodes": 3})).summary()["answerable"] == 2 / 3
    kept = {episode.task_id: episode.meta["answerable"] for episode in store.read(tmp_path / "log")}
    assert list(dict(sorted(kept.items())).values()) == ["true", "false", "true"]
    summary = collect(CollectConfig.model_validate({**play, "episodes": 4, "resume": True})).summary()
    assert (summary["episodes"], summary["answerable"]) == (4, 3 / 4)
    alone = collect(CollectConfig(env="searchqa", data=write(tmp_path / "h.jsonl", HOTPOT), policy="random"))
    assert alone.summary()["answerable"] == 1.0, "it brings its paragraphs"
    assert collect(CollectConfig(env="shop", policy="random", episodes=2)).summary()["answerable"] is None


def test_passage_files_beside_the_questions_are_the_corpus(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path_factory.mktemp("own")
    monkeypatch.setenv("WORLDLINE_CACHE", str(cache))
    data = tmp_path / "qa"
    data.mkdir()
    write(data / "a_questions.jsonl", {"dataset": "nq", "question": "who?", "answers": ["Ada"]}, HOTPOT)
    write(data / "b_passages.jsonl", {"title": "Ada", "text": "Ada wrote it."}, {"title": "Owl", "text": "An owl."})
    world = load("searchqa", data=data)
    environment = world.make()
    environment.reset(task="a_questions/h1")
    assert environment.step("<search>owl</search>")[0] == "<information>Doc 1(Title: Owl) An owl.</information>"
    assert [path.name for path in tmp_path.iterdir()] == ["qa"], "nothing is written beside the user's corpus"
    (index,) = (cache / "searchqa").glob("b_passages.jsonl-*")
    assert (index / "stamp.json").is_file()
    only: Any = load("searchqa", data=data, options={"dataset": "nq"})
    assert list(only.questions) == ["nq/0"]
    again = pickle.loads(pickle.dumps(only))
    assert isinstance(again, SearchQAWorld)
    assert again.questions == only.questions


@pytest.mark.parametrize(
    ("rows", "options", "line"),
    [
        ([{"question": "who?"}], {}, r"q.jsonl:1: no answer under"),
        ([{"question": "", "answer": "x"}], {}, r"q.jsonl:1: no text under 'question'"),
        ([HOTPOT, HOTPOT], {}, r"q.jsonl:2: a second question with id 'q/h1'"),
        ([{"text": "a passage"}], {}, "holds no questions"),
        ([{"question": "who?", "answer": "Ada"}], {}, "'q/0' brings no paragraphs: set the option 'corpus'"),
        ([HOTPOT], {"dataset": "nq"}, "no question of data set 'nq': there are q"),
        ([HOTPOT], {"retriever": "bm52"}, "unknown retriever 'bm52'"),
        ([HOTPOT], {"corpus": "nowhere.jsonl"}, "nowhere.jsonl: no such file"),
        ([{**HOTPOT, "context": [["Owl"]]}], {}, r"q.jsonl:1: paragraphs in neither"),
    ],
)
def test_one_clear_line(tmp_path: Path, rows: list[dict[str, Any]], options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError, match=line):
        load("searchqa", data=write(tmp_path / "q.jsonl", *rows), options=options)


def test_options_for_real_data_ask_for_the_questions() -> None:
    with pytest.raises(InputError, match="option 'corpus' is for real data: give the questions by --data PATH"):
        load("searchqa", options={"corpus": "wiki.jsonl"})


def test_coverage_by_hand() -> None:
    passages = [
        Passage("Ada", "Ada Hale was born in Oslo."),
        Passage("Oslo", "A city."),
        Passage("Cat", "Concatenate."),
    ]
    pairs = [("Where was Ada born?", "Oslo"), ("Who is it?", "hale"), ("A city with a cat", "con"), ("Is it?", "yes")]
    questions = [Question(str(index), text, (answer,), "dev") for index, (text, answer) in enumerate(pairs)]
    coverage = measure(questions, passages, Bm25.of(passages), depths=(1, 2))
    assert coverage.questions == 4
    assert coverage.in_corpus == 2 / 4  # 'con' is no whole word, 'yes' is not looked up
    assert coverage.recall == {1: 1 / 4, 2: 1 / 4}  # 'Who is it?' has no word in common with the corpus


@pytest.mark.data
def test_the_real_corpus_holds_what_its_readme_says(shared_data: Path, tmp_path: Path) -> None:
    options = {"corpus": shared_data / "qa" / "wiki_passages.jsonl.gz", "index": tmp_path / "index"}
    world: Any = load("searchqa", data=shared_data / "qa" / "nq_open_dev.jsonl", options=options)
    assert world.num_tasks("nq-open-dev") == 3610
    assert len(world.engine.passages) == 34_368
    questions = list(world.questions.values())[:200]
    coverage = measure(questions, world.engine.passages, world.engine)
    assert coverage.recall[20] == pytest.approx(0.45, abs=0.08)
    assert coverage.recall[3] < coverage.recall[20] < coverage.in_corpus
    looked_up = sum(answerable(question, world.engine) for question in questions) / len(questions)
    assert looked_up == pytest.approx(coverage.in_corpus, abs=0.02), "as good as reading the whole corpus"
    hotpot = load("searchqa", data=shared_data / "qa" / "hotpotqa_distractor.jsonl.gz")
    assert [hotpot.num_tasks(split) for split in ("train", "dev")] == [800, 100]
    musique: Any = load("searchqa", data=shared_data / "qa" / "musique_train100_with_paragraphs.jsonl.gz")
    assert all(len(question.passages) == 20 for question in musique.questions.values())
