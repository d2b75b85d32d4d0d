"""The section on a comparison says what comparison.json says, the answer first."""

from pathlib import Path

import pytest
from page_reader import PageReader
from report_material import episode, write_log

from worldline.comparison import CompareConfig, compare
from worldline.report import compose, find, render


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    episodes = [
        episode(1000 * p + n, (n * (p + 2)) % 5 < 2 + p, policy=policy).model_copy(update={"task_id": f"t{n}"})
        for p, policy in enumerate(("v1", "v2", "v3"))
        for n in range(40)
    ]
    return write_log(tmp_path / "log", episodes)


def test_the_answer_comes_first_and_every_number_is_there(folder: Path, tmp_path: Path) -> None:
    comparison = compare(CompareConfig(log=(folder,), policies=("v1", "v3"), by="env", out=tmp_path / "out"))
    page = PageReader(render(compose(find(tmp_path / "out")), "test"))
    assert comparison.answer in page.text
    assert page.text.index(comparison.answer) < page.text.index("Paired by task")
    row = page.rows("Paired by task")["v3"]
    pair = comparison.pair("v3")
    assert row["difference"].value == pair.difference.value
    assert row["won / tied / lost"].text == f"{pair.wins} / {pair.ties} / {pair.losses}"
    assert len(page.rows("Where v3 and v1 differ")) == pair.wins + pair.losses


def test_what_cannot_be_told_is_said_so(folder: Path, tmp_path: Path) -> None:
    comparison = compare(CompareConfig(log=(folder,), policies=("v1", "v2", "v3"), out=tmp_path / "out"))
    text = render(compose(find(tmp_path / "out" / "comparison.json")), "test")
    unclear = [pair.policy for pair in comparison.pairs if pair.verdict == "unclear"]
    rows = PageReader(text).rows("Paired by task")
    assert {name for name, row in rows.items() if row["than v1"].text == "unclear"} == set(unclear)
    assert "<svg" in text


def test_the_episodes_of_a_task_stand_under_their_policies(folder: Path, tmp_path: Path) -> None:
    comparison = compare(CompareConfig(log=(folder,), policies=("v1", "v3"), out=tmp_path / "out"))
    rows = PageReader(render(compose(find(tmp_path / "out")), "test")).rows("Where v3 and v1 differ")
    for task in comparison.pair("v3").differing:
        assert rows[task.task_id]["episodes of v3"].text == task.episodes[0]
        assert rows[task.task_id]["episodes of v1"].text == task.baseline_episodes[0]
