"""The section on an evaluation says what evaluation.json says, number by number."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from page_reader import PageReader

from worldline.report import compose, find, render, write_report
from worldline.types import InputError


def page(path: Path) -> PageReader:
    return PageReader(render(compose(find(path)), "test"))


@pytest.fixture(scope="module")
def content(judged: Path) -> dict[str, Any]:
    return json.loads((judged / "evaluation.json").read_text())


@pytest.fixture(scope="module")
def shown(judged: Path) -> PageReader:
    return page(judged / "evaluation.json")


def changed(content: dict[str, Any], folder: Path, **meta: Any) -> Path:
    path = folder / "evaluation.json"
    path.write_text(json.dumps(content | {"meta": content["meta"] | meta}))
    return path


def label(policy: dict[str, Any]) -> str:
    return policy["name"] + (f"@{policy['epsilon']:g}" if policy["epsilon"] else "")


def test_every_estimate_and_truth_is_in_the_table(content: dict[str, Any], shown: PageReader) -> None:
    rows = shown.rows("Every estimator")
    for policy in content["policies"]:
        assert rows["truth"][label(policy)].value == policy["truth"]
        for name, estimate in policy["estimates"].items():
            cell = rows[name][label(policy)]
            assert cell.value == estimate["value"]
            assert cell.text == f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"
            assert ("doubt" in cell.classes) == ("flag" in estimate)
        for name, value in policy["predictors"].items():
            assert rows[name][label(policy)].value == value


def test_null_test_and_certificate_stand_beside_each_estimator(content: dict[str, Any], shown: PageReader) -> None:
    rows = shown.rows("Every estimator")
    for name in content["meta"]["estimators"]:
        passed = [
            trial["estimates"][name]["covers"] for trial in content["meta"]["null_test"] if name in trial["estimates"]
        ]
        assert rows[name]["null test"].text == f"{sum(passed)} of {len(passed)}"
        trials = [trial for trial in content["meta"]["null_test"] if name in trial["estimates"]]
        errors = [abs(trial["estimates"][name]["value"] - trial["truth"]) for trial in trials]
        assert rows[name]["null error"].value == pytest.approx(sum(errors) / len(errors))
        assert rows[name]["certified error"].value == content["meta"]["certificate"]["record"][name]["mae"]


def test_the_agreement_table_equals_the_file(content: dict[str, Any], shown: PageReader) -> None:
    rows = shown.rows("Agreement with the truth")
    assert set(rows) == set(content["agreement"])
    for name, measured in content["agreement"].items():
        for measure in ("spearman", "p", "kendall", "pairwise", "regret@1", "mae", "rmse", "coverage"):
            assert rows[name][measure].value == measured[measure]
    best = min(content["meta"]["estimators"], key=lambda name: content["agreement"][name]["mae"])
    assert [name for name in rows if "best" in rows[name]["mae"].classes] == [best]


def test_the_ranking_is_by_the_recommended_estimator(content: dict[str, Any], shown: PageReader) -> None:
    best = content["recommended"]["estimator"]
    head, *rows = shown.tables["Ranking"]
    assert head[2].text == best
    inorder = sorted(content["policies"], key=lambda policy: -policy["estimates"][best]["value"])
    assert [row[1].text for row in rows] == [label(policy) for policy in inorder]
    assert [row[2].value for row in rows] == [policy["estimates"][best]["value"] for policy in inorder]
    assert [row[4].value for row in rows] == [p["estimates"][best]["value"] - p["truth"] for p in inorder]
    believed = [policy for policy in inorder if not policy["estimates"][best].get("flag")]
    assert shown.facts["recommended policy"][0] == content["recommended"]["policy"] == label(believed[0])
    assert content["recommended"]["reason"] in shown.text


def test_the_ranking_says_where_hardly_anything_of_a_policy_was_tried(content: dict[str, Any], tmp_path: Path) -> None:
    best, policy = content["recommended"]["estimator"], copy.deepcopy(content["policies"][0])
    policy["estimates"][best].pop("flag", None)

    def reason(**diagnostics: float) -> str:
        policy["diagnostics"] |= diagnostics
        shown = page(changed(content | {"policies": [policy, *content["policies"][1:]]}, tmp_path))
        (own,) = (row for row in shown.tables["Ranking"] if row[1].text == label(policy))
        return own[-1].text

    assert reason(support=0.29) == f"none against {best}, though only 29% of what it would do was ever tried in the log"
    few = f"none against {best}, though only 4.3 episodes' worth of the log is like it (at least 25 are needed)"
    assert reason(support=0.9, ess=4.3) == few
    assert reason(ess=60.0) == "none"


def test_the_table_says_what_an_expected_error_is(shown: PageReader) -> None:
    assert "Expected error, by which an estimator is recommended, is of its values of these candidates" in shown.text


def test_what_the_evaluation_recommends_is_shown_whatever_the_numbers_are(
    content: dict[str, Any], tmp_path: Path
) -> None:
    recommended = {"estimator": "is", "policy": "expert@0.95", "reason": "a reason of its own"}
    shown = page(changed(content | {"recommended": recommended}, tmp_path))
    assert shown.tables["Ranking"][0][2].text == "is"
    assert shown.facts["recommended policy"][0] == "expert@0.95"
    assert shown.facts["recommended estimator"] == ("is", "a reason of its own")


def test_where_the_evaluation_recommends_nothing_the_report_recommends_nothing(
    content: dict[str, Any], tmp_path: Path
) -> None:
    """As in the demo: `dr` is certified but flagged for every policy, and what is not flagged is not certified."""
    policies = json.loads(json.dumps(content["policies"]))
    for policy in policies:
        for estimator in ("dr", content["comparison"]["estimator"]):
            policy["estimates"][estimator]["flag"] = "2.1 effective episodes of 120"
    record = {"naive": {"trials": 3, "mae": 0.001}, "dr": {"trials": 3, "mae": 0.2}}
    reason = "the error of adwm on this log is not certified, and no other that may be recommended is without a flag"
    content.pop("comparison")
    path = changed(
        content | {"policies": policies, "recommended": None},
        tmp_path,
        certificate={"trials": [], "record": record},
        no_recommendation=reason,
    )
    shown = page(path)
    assert shown.facts["recommended policy"] == ("no recommendation", reason)
    assert "recommended estimator" not in shown.facts
    assert "Ranking" not in shown.tables
    assert "★" not in shown.page
    assert "Who is better" not in shown.tables
    assert not [cell.text for row in shown.tables["Every estimator"][2:] for cell in row if "best" in cell.classes]
    assert "★" not in write_report(path, tmp_path / "plot.svg").path.read_text()


def test_doubts_and_warnings_are_shown_in_words(content: dict[str, Any], tmp_path: Path) -> None:
    policies = json.loads(json.dumps(content["policies"]))
    policies[0]["estimates"]["dr"] = {"value": None, "low": None, "high": None, "n": 40, "refused": "no weights"}
    shown = page(changed(content | {"policies": policies, "warnings": ["mind the gap"]}, tmp_path))
    assert "mind the gap" in shown.text
    assert "expert: dr: refused: no weights" in shown.text
    assert shown.rows("Every estimator")["dr"]["expert"].text == "refused"


def test_figures_out_of_support_are_marked(content: dict[str, Any], tmp_path: Path) -> None:
    policies = json.loads(json.dumps(content["policies"]))
    policies[0]["diagnostics"] |= {"ess": 3.0, "support": 0.4, "pareto_k": 0.2}
    rows = page(changed(content | {"policies": policies}, tmp_path)).rows("What the log can say about each policy")
    marked = {column for column, cell in rows["expert"].items() if "doubt" in cell.classes}
    assert {"effective episodes", "in support"} <= marked
    assert "importance-weight tail index k" not in marked


def test_sensitivity_is_shown_where_it_was_measured(content: dict[str, Any], shown: PageReader, tmp_path: Path) -> None:
    rows = [
        {"w": 0.0, "alpha": 0.0, "values": [0.9, 0.5, 0.1], "spearman_with_plain": 1.0},
        {"w": 0.5, "alpha": 0.1, "values": [0.4, 0.5, 0.2], "spearman_with_plain": None},
    ]
    assert "Sensitivity of the ranking" not in shown.tables
    head, *body = page(changed(content, tmp_path, sensitivity=rows)).tables["Sensitivity of the ranking"]
    assert [cell.text for cell in head] == ["w", "alpha", *map(label, content["policies"]), "spearman_with_plain"]
    assert [[cell.value for cell in row] for row in body] == [
        [0, 0, 0.9, 0.5, 0.1, 1.0],
        [0.5, 0.1, 0.4, 0.5, 0.2, None],
    ]


def test_a_file_with_nothing_but_estimates_is_shown(content: dict[str, Any], tmp_path: Path) -> None:
    policies = [{k: v for k, v in p.items() if k in ("name", "epsilon", "estimates")} for p in content["policies"]]
    path = tmp_path / "evaluation.json"
    path.write_text(json.dumps({"policies": policies, "agreement": {}, "meta": {}}))
    shown = page(path)
    assert shown.facts["recommended policy"] == ("no recommendation", "the evaluation gives none")
    assert "truth" not in shown.rows("Every estimator")
    assert "Agreement with the truth" not in shown.tables
    with pytest.raises(InputError, match="neither true values nor a recommended estimator to plot"):
        write_report(path, tmp_path / "plot.svg")


def test_a_file_that_is_no_evaluation_is_named(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    path.write_text('{"policies": [{"name": "x"}]}')
    with pytest.raises(InputError, match=r"evaluation.json: no evaluation: 'policies.0.estimates': Field required"):
        page(path)


def test_every_reason_for_doubt_can_be_read_without_a_pointer(content: dict[str, Any], tmp_path: Path) -> None:
    policies = json.loads(json.dumps(content["policies"]))
    for number, policy in enumerate(policies):
        policy["estimates"]["is"]["flag"] = f"reason {number}"
    shown = page(changed(content | {"policies": policies}, tmp_path))
    assert not [attributes for _, attributes in shown.tags if "title" in attributes]
    rows = shown.rows("Every estimator")
    marks = [rows["is"][label(policy)].mark for policy in policies]
    assert len(set(marks)) == len(policies) and all(marks)
    for number in range(len(policies)):
        assert f"reason {number}" in shown.text


def test_the_answer_stands_before_every_number(shown: PageReader, content: dict[str, Any]) -> None:
    best = content["recommended"]["policy"]
    assert 0 <= shown.text.index(f"{best} ") < shown.text.index("recommended policy")
