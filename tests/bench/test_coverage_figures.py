"""The tables of `bench coverage`, counted by hand."""

from typing import Any

import pytest

from worldline.bench.coverage_figures import calibration_rows, constant_rows, estimator_row, summary, winner_figures


def log(kind: str, n: int, estimate: list[object], truth: float = 0.5, **more: object) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind, "n": n, "truth": {"a": truth, "b": 0.4}, "behaviour": 0.3}
    row |= {"estimates": {"a": {"wis": estimate, "is": [0.0, -1.0, 1.0, False]}, "b": {"wis": [0.1, 0.0, 1.0, False]}}}
    return row | {"recommended": "wis", "pairs": [], "winner": None} | more


def test_a_silent_error_is_large_uncovered_and_unflagged() -> None:
    logs = [
        log("good", 200, [0.9, 0.8, 1.0, False]),  # silent
        log("good", 200, [0.9, 0.8, 1.0, True]),  # flagged
        log("good", 200, [0.55, 0.51, 0.6, False]),  # uncovered by little
        log("good", 50, [0.9, 0.4, 1.0, True]),  # covered; flags at n = 50 are not counted as false
    ]
    row = estimator_row("wis", logs)
    assert row["silent"] == pytest.approx(1 / 8)
    assert row["false flags"] == pytest.approx(1 / 6)
    assert row["coverage"] == pytest.approx(4 / 6)
    assert row["good, 50"] == "50% flagged"


def test_the_lowest_cell_has_an_error_by_log() -> None:
    """Ten logs with both candidates wrong, thirty with both right: a share of .75 of forty, not of eighty."""
    wrong, right = log("good", 200, [0.9, 0.8, 1.0, False]), log("good", 200, [0.5, 0.4, 0.6, False])
    wrong["estimates"]["b"]["wis"] = [0.1, 0.0, 0.2, False]
    row = estimator_row("wis", [wrong] * 10 + [right] * 30)
    assert row["lowest cell"] == pytest.approx(0.75)
    assert row["its error"] == pytest.approx((0.75 * 0.25 / 39) ** 0.5)


def test_a_network_judged_on_some_logs_is_no_constant_choice() -> None:
    some, others = log("good", 200, [0.6, 0.4, 0.7, False]), log("good", 200, [0.6, 0.4, 0.7, False])
    for estimates in some["estimates"].values():
        estimates["fqe"] = [0.5, 0.4, 0.6, False]
    tables = summary([some, others]).rows
    assert [row["estimator"] for row in tables if row["table"] == "estimators"] == ["wis", "is", "fqe"]
    assert "fqe" not in [row["estimator"] for row in tables if row["table"] == "choice of estimator"]
    assert "fqe" in [row["estimator"] for row in summary([some]).rows if row["table"] == "choice of estimator"]


def test_calibration_counts_the_likelier_side() -> None:
    pairs = [["a", "b", 0.95], ["b", "a", 0.05], ["b", "a", 0.92], ["a", "b", 0.55]]
    rows = calibration_rows([log("good", 200, [0.5, 0.4, 0.6, False], pairs=pairs)])
    assert [(row["stated"], row["pairs"]) for row in rows] == [("0.5-0.6", 1), ("0.9-1", 3)]
    assert rows[1]["right"] == pytest.approx(2 / 3)
    assert rows[1]["gap"] == pytest.approx(2 / 3 - (0.95 + 0.95 + 0.92) / 3)


def test_the_recommendation_is_compared_with_constants_on_the_same_logs() -> None:
    rows = constant_rows([log("good", 200, [0.6, 0.4, 0.7, False])], ["wis", "is"])
    assert [row["estimator"] for row in rows] == ["recommended", "wis", "is"]
    assert rows[0]["error"] == rows[1]["error"] == pytest.approx((0.1 + 0.3) / 2)
    assert rows[0]["regret"] == 0.0
    assert rows[2]["regret"] == pytest.approx(0.1)  # 'is' has no value of b: the behaviour mean, .3, wins over 0


def test_the_winners_bias_is_against_its_own_truth() -> None:
    figures = winner_figures([{"truth": {"a": 0.5}, "winner": ["a", 0.7, 0.52]}])
    assert figures["winner's bias"] == pytest.approx(0.2)
    assert figures["winner's bias, corrected"] == pytest.approx(0.02)
    assert winner_figures([]) == {}


def test_a_summary_has_every_table() -> None:
    figures = summary([log("good", 200, [0.9, 0.8, 1.0, False], pairs=[["a", "b", 0.8]])])
    assert {row["table"] for row in figures.rows} == {"estimators", "P(a > b)", "choice of estimator"}
    assert figures.figures["worst silent share"] == 0.5
