"""The table of `bench rank`, from evaluations of a given agreement."""

import pytest

from worldline.bench.rank import MEASURES, summary


def evaluation(spearman: float | None, mae: float) -> dict[str, object]:
    measures = dict.fromkeys(MEASURES, 0.5) | {"spearman": spearman, "mae": mae}
    return {"agreement": {"adwm": measures, "naive": dict.fromkeys(MEASURES, None)}}


def test_means_over_seeds() -> None:
    figures = summary([evaluation(0.9, 0.02), evaluation(0.7, 0.06)], {"a": 0.1, "b": 0.95})
    assert figures.figures["adwm spearman"] == pytest.approx(0.8)
    assert figures.figures["adwm mae"] == pytest.approx(0.04)
    assert figures.figures["highest truth"] == 0.95
    adwm, naive = figures.rows
    assert adwm["spearman by seed"] == [0.9, 0.7]
    assert naive["spearman"] is None
