"""The section on an evaluation says what evaluation.json says, number by number."""

import json
from pathlib import Path
from typing import Any

import pytest
from page_reader import PageReader

from worldline.report import compose, find, render
from worldline.report.evaluation_file import read_evaluation
from worldline.types import InputError


def page(path: Path) -> PageReader:
    return PageReader(render(compose(find(path)), "test"))


@pytest.fixture(scope="module")
def told(judged: Path) -> dict[str, Any]:
    return json.loads((judged / "evaluation.json").read_text())


@pytest.fixture(scope="module")
def shown(judged: Path) -> PageReader:
    return page(judged / "evaluation.json")


def changed(told: dict[str, Any], folder: Path, **meta: Any) -> Path:
    path = folder / "evaluation.json"
    path.write_text(json.dumps(told | {"meta": told["meta"] | meta}))
    return path


def label(policy: dict[str, Any]) -> str:
    return policy["name"] + (f"@{policy['epsilon']:g}" if policy["epsilon"] else "")


def test_every_estimate_and_truth_is_in_the_table(told: dict[str, Any], shown: PageReader) -> None:
    rows = shown.rows("Every estimator")
    for policy in told["policies"]:
        assert rows["truth"][label(policy)].value == policy["truth"]
        for name, said in policy["estimates"].items():
            cell = rows[name][label(policy)]
            assert cell.value == said["value"]
            assert cell.text == f"{said['value']:.3f} [{said['low']:.3f}, {said['high']:.3f}]"
            assert ("doubt" in cell.classes) == ("flag" in said)
        for name, value in policy["predictors"].items():
            assert rows[name][label(policy)].value == value


def test_null_test_and_certificate_stand_beside_each_estimator(told: dict[str, Any], shown: PageReader) -> None:
    rows = shown.rows("Every estimator")
    for name in told["meta"]["estimators"]:
        passed = [
            trial["estimates"][name]["covers"] for trial in told["meta"]["null_test"] if name in trial["estimates"]
        ]
        assert rows[name]["null test"].text == f"{sum(passed)} of {len(passed)}"
        assert rows[name]["certified error"].value == told["meta"]["certificate"]["record"][name]["mae"]


def test_the_agreement_table_equals_the_file(told: dict[str, Any], shown: PageReader) -> None:
    rows = shown.rows("Agreement with the truth")
    assert set(rows) == set(told["agreement"])
    for name, measured in told["agreement"].items():
        for measure in ("spearman", "p", "kendall", "pairwise", "regret@1", "mae", "rmse", "coverage"):
            assert rows[name][measure].value == measured[measure]
    best = min(told["meta"]["estimators"], key=lambda name: told["agreement"][name]["mae"])
    assert [name for name in rows if "best" in rows[name]["mae"].classes] == [best]


def test_the_ranking_is_by_the_certified_estimator(told: dict[str, Any], shown: PageReader) -> None:
    record = told["meta"]["certificate"]["record"]
    best = min((name for name in record if name != "naive"), key=lambda name: record[name]["mae"])
    head, *rows = shown.tables["Ranking"]
    assert head[2].text == best
    inorder = sorted(told["policies"], key=lambda policy: -policy["estimates"][best]["value"])
    assert [row[1].text for row in rows] == [label(policy) for policy in inorder]
    assert [row[2].value for row in rows] == [policy["estimates"][best]["value"] for policy in inorder]
    assert [row[4].value for row in rows] == [p["estimates"][best]["value"] - p["truth"] for p in inorder]


def test_a_blind_estimator_is_not_recommended_however_small_its_error(told: dict[str, Any], tmp_path: Path) -> None:
    record = {"naive": {"mae": 0.001}, "dr": {"mae": 0.2}, "wis": {"mae": 0.3}}
    path = changed(told, tmp_path, certificate={"record": record}, recommended=None)
    assert read_evaluation(path).recommended()[0] == "dr"


def test_what_the_evaluation_recommends_wins(told: dict[str, Any], tmp_path: Path) -> None:
    said = {"estimator": "is", "error": 0.125, "errors": {"is": 0.125, "dr": 0.25}}
    shown = page(changed(told, tmp_path, recommended=said))
    assert shown.tables["Ranking"][0][2].text == "is"
    assert "smallest certified error on this log, 0.125; next is dr, 0.250" in shown.text


def test_doubts_and_notes_are_told_in_words(told: dict[str, Any], tmp_path: Path) -> None:
    policies = json.loads(json.dumps(told["policies"]))
    policies[0]["estimates"]["dr"] = {"value": None, "low": None, "high": None, "n": 40, "refused": "no weights"}
    shown = page(changed(told | {"policies": policies}, tmp_path, notes=["mind the gap"]))
    assert "mind the gap" in shown.text
    assert "expert: dr: refused: no weights" in shown.text
    assert shown.rows("Every estimator")["dr"]["expert"].text == "refused"


def test_figures_out_of_support_are_marked(told: dict[str, Any], tmp_path: Path) -> None:
    policies = json.loads(json.dumps(told["policies"]))
    policies[0]["diagnostics"] |= {"ess": 3.0, "support": 0.4, "pareto_k": 0.2}
    rows = page(changed(told | {"policies": policies}, tmp_path)).rows("What the log can say about each policy")
    marked = {column for column, cell in rows["expert"].items() if "doubt" in cell.classes}
    assert {"effective episodes", "in support"} <= marked
    assert "weight tail k" not in marked


def test_sensitivity_is_shown_where_it_was_measured(told: dict[str, Any], shown: PageReader, tmp_path: Path) -> None:
    rows = [
        {"w": 0.0, "alpha": 0.0, "values": [0.9, 0.5, 0.1], "spearman_with_plain": 1.0},
        {"w": 0.5, "alpha": 0.1, "values": [0.4, 0.5, 0.2], "spearman_with_plain": None},
    ]
    assert "Sensitivity of the ranking" not in shown.tables
    head, *body = page(changed(told, tmp_path, sensitivity=rows)).tables["Sensitivity of the ranking"]
    assert [cell.text for cell in head] == ["w", "alpha", *map(label, told["policies"]), "spearman_with_plain"]
    assert [[cell.value for cell in row] for row in body] == [
        [0, 0, 0.9, 0.5, 0.1, 1.0],
        [0.5, 0.1, 0.4, 0.5, 0.2, None],
    ]


def test_without_truth_and_certificate_there_is_still_a_ranking(told: dict[str, Any], tmp_path: Path) -> None:
    policies = [{k: v for k, v in p.items() if k in ("name", "epsilon", "estimates")} for p in told["policies"]]
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"policies": policies, "agreement": {}, "meta": {}}))
    shown = page(path)
    assert "truth" not in [cell.text for cell in shown.tables["Ranking"][0]]
    assert "Agreement with the truth" not in shown.tables
    assert "nothing is certified" in shown.text


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("{", "corrupt: not JSON"),
        ("[]", "no evaluation"),
        ('{"policies": [{"name": "x"}]}', "'policies.0.estimates': Field required"),
        ('{"policies": []}', "an evaluation of nothing"),
    ],
)
def test_a_file_that_is_no_evaluation_is_named(content: str, line: str, tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text(content)
    with pytest.raises(InputError, match=line) as error:
        page(path)
    assert str(path) in str(error.value)
