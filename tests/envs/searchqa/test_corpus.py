"""A corpus on disk: both row forms, one index for all, rebuilt when the corpus changes, and nothing half done."""

import gzip
import json
from pathlib import Path

import pytest

from worldline.envs.searchqa.corpus import open_index, read_passages
from worldline.envs.searchqa.passage import Passage
from worldline.envs.searchqa.retrieval import Bm25
from worldline.types import InputError

PASSAGES = [Passage(f"Title {n}", f"fact number {n} about {'owls' if n % 3 else 'foxes'} é") for n in range(50)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "wiki.jsonl.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps({"id": n, "title": p.title, "text": p.text}) + "\n" for n, p in enumerate(PASSAGES))
    return file


def test_the_index_on_disk_finds_what_the_one_in_memory_does(corpus: Path, tmp_path: Path) -> None:
    index = open_index([corpus], tmp_path / "index")
    assert list(index.passages) == PASSAGES
    assert index.passages[-1] == PASSAGES[-1]
    in_memory = Bm25.of(PASSAGES)
    for query in ("foxes", "number 7 owls", "title 12", "nothing of this"):
        assert index.search(query, 5) == in_memory.search(query, 5)


def test_it_is_built_once_and_again_when_the_corpus_changes(corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "index"
    open_index([corpus], folder)
    before = (folder / "stamp.json").stat().st_mtime_ns
    open_index([corpus], folder)
    assert (folder / "stamp.json").stat().st_mtime_ns == before
    with gzip.open(corpus, "at", encoding="utf-8") as out:
        out.write(json.dumps({"title": "New", "text": "a heron"}) + "\n")
    assert open_index([corpus], folder).search("heron", 3) == (Passage("New", "a heron"),)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "wiki.jsonl.gz"]


def test_search_r1s_rows_are_read_too(tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_text('{"id": "0", "contents": "\\"Oslo\\"\\nOslo is a city."}\n\n{"contents": "no title"}\n')
    assert list(read_passages([file])) == [Passage("Oslo", "Oslo is a city."), Passage("", "no title")]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"title": "x"}\n', r"corpus.jsonl:1: a passage has 'text'"),
        (b'{"text": "x"}\n{"text": \n', r"corpus.jsonl:2: not JSON"),
        (b"[1, 2]\n", r"corpus.jsonl:1: a row is a JSON object, this is list"),
        (b"\xff\xfe\x00", r"corpus.jsonl: not UTF-8: 0xff: save it as UTF-8"),
        (b"", r"corpus.jsonl: holds no passage"),
    ],
)
def test_a_bad_corpus_is_named_and_leaves_no_index(tmp_path: Path, content: bytes, line: str) -> None:
    file = tmp_path / "corpus.jsonl"
    file.write_bytes(content)
    with pytest.raises(InputError, match=line):
        open_index([file], tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def test_a_truncated_gzip_is_named(corpus: Path, tmp_path: Path) -> None:
    corpus.write_bytes(corpus.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"wiki.jsonl.gz: cannot be read"):
        open_index([corpus], tmp_path / "index")


def test_a_read_only_place_stays_as_it_is(corpus: Path, tmp_path: Path) -> None:
    place = tmp_path / "shared"
    place.mkdir(mode=0o555)
    with pytest.raises(InputError, match="read-only: set the option 'index'"):
        open_index([corpus], place / "index")
    assert not list(place.iterdir())


def test_a_folder_of_something_else_is_left_alone(corpus: Path, tmp_path: Path) -> None:
    mine = tmp_path / "thesis"
    mine.mkdir()
    (mine / "chapter1.txt").write_text("years of work")
    with pytest.raises(InputError, match="no index of worldline's"):
        open_index([corpus], mine)
    assert (mine / "chapter1.txt").read_text() == "years of work"
