"""A path that is not there: the line names what was probably meant."""

import os
from pathlib import Path

import pytest

from worldline.cli import main
from worldline.nearby import nearby


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "logs").mkdir()
    (tmp_path / "runs" / "clone" / "model").mkdir(parents=True)
    (tmp_path / "runs.jsonl").touch()
    (tmp_path / ".hidden").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("log", ": there is logs/"),
        ("run.jsonl", ": there is runs.jsonl"),
        ("logs.parquet", ": there is logs/"),
        ("runs/new/model", ": runs/ holds clone/"),
        ("runs/clones/model", ": there is runs/clone/"),
        ("elsewhere", ": this folder holds logs/, runs.jsonl, runs/"),
        ("logs/x", ""),
        ("/no/where", ""),
    ],
)
def test_what_is_near(here: Path, path: str, line: str) -> None:
    assert nearby(path) == line
    assert nearby(here / path) == (
        line.replace("there is ", f"there is {here}/")
        if "there is" in line
        else line.replace("this folder", f"{here}/").replace("runs/ holds", f"{here}/runs/ holds")
    )


def test_paths_that_no_folder_can_hold_and_a_working_folder_that_is_gone(here: Path) -> None:
    assert nearby("x" * 5000 + "/y") == ": this folder holds logs/, runs.jsonl, runs/"
    assert nearby("~nobody-of-this-name/y") == ": this folder holds logs/, runs.jsonl, runs/"
    (here / "gone").mkdir()
    os.chdir(here / "gone")
    (here / "gone").rmdir()
    assert nearby("a/b") == ""


def test_many_entries_are_not_all_listed(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{number}.txt").touch()
    assert nearby(tmp_path / "absent").endswith("holds 0.txt, 1.txt, 2.txt, 3.txt, 4.txt and 3 more")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("compare log", "log: no such log: there is logs/"),
        ("compare runs.jsonl", "runs.jsonl: no worldline log: `worldline import runs.jsonl --out logs/` makes one"),
        ("compare .", "nor in a folder 'log' of it: `worldline import runs.jsonl --out logs/` makes one"),
        ("import run.jsonl --out x", "run.jsonl: no such file: there is runs.jsonl"),
        ("collect household --policy hf:runs/new/model", "hf:runs/new/model: no such folder: runs/ holds clone/"),
        ("report run", "run: no such file or folder: there is runs/: give"),
    ],
)
def test_verbs_say_it(here: Path, words: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "runs.jsonl").write_text("{}")
    assert main(words.split()) == 2
    assert line in capsys.readouterr().err
