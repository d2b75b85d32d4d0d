"""Figures: nothing is cut off in silence, and no raw TeX."""

import re

from worldline.report import plots
from worldline.report.plots import Panel, Point


def words(svg: str) -> list[str]:
    return [text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def test_a_value_outside_the_plot_is_written_beside_its_arrow() -> None:
    points = [Point("a", 0.5, 0.4, 0.6), Point("b", 0.6, 0.5, 0.7), Point("far", 37.25, 1.0, 80.0, doubtful=True)]
    assert "37.2" in words(plots.forest(points, "dr"))
    inside = words(plots.forest(points[:2], "dr"))
    assert "37.2" not in inside
    drawn = words(plots.against_truth({"is": [Point("a", 0.5, truth=0.4), Point("b", -12.5, truth=0.8)]}))
    assert "-12.5" in drawn


def test_where_every_point_is_doubtful_all_lie_inside() -> None:
    points = [Point("a", 5.0625, doubtful=True), Point("b", 7.0625, doubtful=True)]
    assert not {"5.06", "7.06"} & set(words(plots.forest(points, "dr")))


def test_log_axes_have_plain_numbers() -> None:
    svg = plots.curves([Panel("loss", {"a": ([1.0, 2.0, 3.0], [0.001, 1.0, 1000.0])})])
    assert not [word for word in words(svg) if "$" in word or "\\" in word or "{" in word]
    assert {"0.001", "1", "1000"} <= set(words(svg))
