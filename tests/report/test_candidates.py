"""The comparison of an evaluation on its page: every difference, P(best), the groups."""

import json
from pathlib import Path
from typing import Any

import pytest
from page_reader import PageReader

from worldline.cli import main
from worldline.report import compose, find, render


def page(content: dict[str, Any], folder: Path) -> PageReader:
    path = folder / "evaluation.json"
    path.write_text(json.dumps(content))
    return PageReader(render(compose(find(path)), "test"))


@pytest.fixture(scope="module")
def evaluated(judged: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two candidates that the log says enough about."""
    folder = tmp_path_factory.mktemp("evaluated")
    words = (
        "--policy expert --epsilon 0.4 0.6 --estimators naive wis --options.level tiny --logger expert=expert --json"
    )
    assert main(["evaluate", "--log", str(judged / "logs"), *words.split(), "--out", str(folder)]) == 0
    return folder / "evaluation.json"


@pytest.fixture
def content(evaluated: Path) -> dict[str, Any]:
    return json.loads(evaluated.read_text())


def test_every_difference_is_shown(content: dict[str, Any], tmp_path: Path) -> None:
    shown = page(content, tmp_path)
    rows = shown.rows("Who is better")
    compared = content["comparison"]
    assert len(rows) == len(compared["differences"])
    for difference in compared["differences"]:
        row = rows[f"{difference['a']} − {difference['b']}"]
        assert row["P(> 0)"].value == pytest.approx(difference["p"])
    best = shown.rows("The best candidate")
    assert {label: row["P(best)"].value for label, row in best.items()} == pytest.approx(compared["p_best"])


def test_a_probability_that_leans_the_other_way_than_its_difference_is_explained(
    content: dict[str, Any], tmp_path: Path
) -> None:
    one, *others = content["comparison"]["differences"]
    pair = f"{one['a']} - {one['b']}"
    for each in (one, *others):
        each["value"], each["p"] = 0.2, 0.9
    assert "leans the other way" not in page(content, tmp_path).page
    one["p"] = 0.41
    assert f"and leans the other way than the value for {pair}." in page(content, tmp_path).page
    one["value"], one["p"] = -0.2, 0.4999
    assert "leans the other way" not in page(content, tmp_path).page
    one["value"], one["p"] = 0.0, 0.5165
    assert "leans the other way" not in page(content, tmp_path).page, "a tie leans nowhere"


def test_the_table_says_why_a_probability_is_not_that_of_its_interval(content: dict[str, Any], tmp_path: Path) -> None:
    """P(> 0) of .960 beside a 95 % interval that leaves out 0."""
    content["comparison"]["differences"][0] |= {"value": 0.2, "low": 0.001, "high": 0.409, "p": 0.96}
    assert "P(&gt; 0) is of values that are drawn towards those of the other candidates" in page(content, tmp_path).page


def test_the_table_says_who_is_not_compared(judged: Path) -> None:
    content = json.loads((judged / "evaluation.json").read_text())
    by = content["recommended"]["estimator"]
    flagged = [policy["name"] for policy in content["policies"] if policy["estimates"][by].get("flag")]
    assert flagged, "or this test says nothing"
    rows = PageReader(render(compose(find(judged / "evaluation.json")), "test"))
    assert f"Not compared: expert, expert@0.95: do not trust their values by {by}." in rows.text
    assert {name.split(" − ")[0] for name in rows.rows("Who is better")} == {"expert@0.5"}


def test_groups_are_shown(content: dict[str, Any], tmp_path: Path) -> None:
    name = "expert@0.4"
    estimate = {"value": 0.25, "low": 0.1, "high": 0.4, "n": 9}
    group = {"group": "red", "episodes": 9, "estimates": {name: estimate}}
    split = {"column": "colour", "estimator": "wis", "groups": [group], "p": 0.03}
    rows = page(content | {"breakdown": split}, tmp_path).rows("By colour")
    assert rows["red"][name].value == 0.25


def test_without_a_comparison_there_is_no_table(content: dict[str, Any], tmp_path: Path) -> None:
    content.pop("comparison")
    group = {"group": "red", "episodes": 9, "estimates": {}}
    content["breakdown"] = {"column": "colour", "estimator": "wis", "groups": [group]}
    shown = page(content, tmp_path)
    assert "Who is better" not in shown.page
    assert set(shown.rows("By colour")) == {"red"}, "groups are flagged one by one"
