"""The share of errors in common, of errors whose share is known."""

import error_correlation
import pytest


def row(world: str, errors: list[float], part: str = "full") -> dict[str, object]:
    truth = {f"p{at}": 0.5 for at in range(len(errors))}
    return {
        "world": world,
        "part": part,
        "truth": truth,
        "values": {name: 0.5 + error for name, error in zip(truth, errors, strict=True)},
    }


def test_shares_of_errors() -> None:
    """All alike: all of it. Two that are opposite: less than nothing. What is switched off does not count."""
    rows = [
        row("alike", [0.1, 0.1, 0.1]),
        row("opposite", [0.1, -0.1]),
        row("half", [0.1, 0.1, 0.1, -0.1]),
        row("half", [9.0, 9.0, 9.0, 9.0], part="wordings"),
    ]
    assert error_correlation.shares(rows) == pytest.approx({"alike": 1.0, "opposite": -1.0, "half": 0.0})
