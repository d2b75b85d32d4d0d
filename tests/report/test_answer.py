"""The first words of an evaluation's page: what the file says, and never more than it allows."""

from typing import Any

import pytest

from worldline.evaluate.advice import not_compared, robustness
from worldline.evaluate.result import Evaluation
from worldline.evaluate.result_parts import SensitivityResult
from worldline.report.answer import headline


def evaluation(values: dict[str, tuple[float, float, float]], recommended: bool = True, **more: Any) -> Evaluation:
    policies = [
        {"name": name, "estimates": {"dr": {"value": value, "low": low, "high": high, "n": 40}}}
        for name, (value, low, high) in values.items()
    ]
    best = max(values, key=lambda name: values[name][0])
    chosen = {"estimator": "dr", "policy": best, "reason": "smallest certified error"} if recommended else None
    meta = {
        "loggers": ["a", "b"],
        "certificate": {"record": {"dr": {"trials": 3, "mae": 0.04}}},
        **more.pop("meta", {}),
    }
    return Evaluation.model_validate({"policies": policies, "recommended": chosen, "meta": meta, **more})


def test_a_clear_winner_is_best_and_overlapping_ones_may_not_be() -> None:
    clear = headline(evaluation({"old": (0.3, 0.2, 0.4), "new": (0.6, 0.5, 0.7)}))
    assert clear.text.startswith(
        "new is best by dr: 0.600 [0.500, 0.700], 0.300 above old; their intervals do not overlap."
    )
    assert "was off by 0.040 on average (3 trials)" in clear.text
    assert clear.tone == "sure" and not clear.lines
    unclear = headline(evaluation({"old": (0.5, 0.4, 0.65), "new": (0.6, 0.5, 0.7)}))
    assert "new ranks first by dr" in unclear.text and "it may not be the best" in unclear.text


def test_without_a_recommendation_nobody_is_best() -> None:
    answer = headline(
        evaluation(
            {"old": (0.3, 0.2, 0.4), "new": (0.6, 0.5, 0.7)}, False, meta={"no_recommendation": "nothing is certified"}
        )
    )
    assert answer.text == "No candidate can be recommended: nothing is certified."
    assert answer.tone == "doubt"
    assert "new" not in answer.text


def test_one_logger_that_always_succeeds_gives_no_certainty() -> None:
    """As after the first commands of a newcomer: a log of one policy, every episode of which ended alike."""
    answer = headline(
        evaluation(
            {"clone": (1.0, 1.0, 1.0)}, meta={"loggers": ["expert"], "certificate": {}}, warnings=["all returns are 1"]
        )
    )
    assert answer.tone == "doubt"
    assert "The error of this estimator on this log is not measured." in answer.text
    assert any("has no width" in line for line in answer.lines)
    assert any("one policy made the log (expert)" in line for line in answer.lines)
    assert "all returns are 1" in answer.lines


@pytest.mark.parametrize(
    ("diagnostics", "line"),
    [
        ({"support": 0.1, "ess": 2.0}, "only 10% of what new would do was ever tried in the log: collect episodes of"),
        ({"support": 0.9, "ess": 2.0}, "only 2.0 episodes' worth of the log is like new (at least "),
    ],
)
def test_it_says_what_to_collect(diagnostics: dict[str, float], line: str) -> None:
    content = evaluation({"new": (0.6, 0.5, 0.7)}).as_dict()
    content["policies"][0]["diagnostics"] = {"episodes": 40, "tasks": 9, **diagnostics}
    answer = headline(Evaluation.model_validate(content))
    assert any(part.startswith(line) for part in answer.lines)


def test_a_share_under_a_half_is_not_shown_as_a_half() -> None:
    content = evaluation({"new": (0.6, 0.5, 0.7)}).as_dict()
    content["policies"][0]["diagnostics"] = {"episodes": 40, "tasks": 9, "support": 0.496}
    assert headline(Evaluation.model_validate(content)).lines[0].startswith("only 49.6% of what new would do was ever")


def test_what_fit_said_against_the_model_is_said_first() -> None:
    content = evaluation({"new": (0.6, 0.5, 0.7), "old": (0.1, 0.0, 0.2)}).as_dict()
    point = "wm misses the log's own returns by 0.127 in replay: its values may be off by as much"
    content["recommended"]["doubts"] = [point]
    content["warnings"] = [*(f"note {number}" for number in range(9)), f"fit warned: {point}"]
    answer = headline(Evaluation.model_validate(content))
    assert answer.tone == "doubt" and answer.lines[0] == f"fit warned: {point}"
    assert answer.lines.count(f"fit warned: {point}") == 1


def test_intervals_that_missed_in_the_trials_are_counted() -> None:
    content = evaluation({"new": (0.6, 0.5, 0.7), "old": (0.1, 0.0, 0.2)}).as_dict()
    own = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 40}
    covers = (False, True, None)
    trials = [{"policy": "a", "truth": 0.2, "estimates": {"dr": own | {"covers": hit}}} for hit in covers]
    content["meta"]["certificate"]["trials"] = trials
    text = headline(Evaluation.model_validate(content)).text
    assert text.endswith("off by 0.040 on average (3 trials, 1 of 2 intervals hold the value).")


def test_a_flag_of_the_best_is_said_at_once() -> None:
    content = evaluation({"new": (0.6, 0.5, 0.7), "old": (0.1, 0.0, 0.2)}).as_dict()
    content["policies"][0]["estimates"]["dr"]["flag"] = "2.1 effective episodes of 120"
    answer = headline(Evaluation.model_validate(content))
    assert answer.tone == "doubt" and answer.lines[0] == "new: 2.1 effective episodes of 120"


def test_who_is_not_compared_is_said_with_the_reason() -> None:
    values = {"new": (0.6, 0.5, 0.7), "old": (0.1, 0.0, 0.2)}
    assert not not_compared(evaluation(values))
    nothing = evaluation(values, recommended=False, meta={"no_recommendation": "every estimator is flagged"})
    assert not_compared(nothing) == "who is better, nothing here can tell: every estimator is flagged"
    content = evaluation(values).as_dict()
    content["policies"][0]["estimates"]["dr"]["flag"] = "2.1 effective episodes of 120"
    assert not_compared(Evaluation.model_validate(content)) == "not compared: new: do not trust their values by dr"


@pytest.mark.parametrize("gamma", [1.001, 1.0023, 1.04, 1.2345, 17.03, 1e6])
def test_a_factor_is_shown_that_can_be_told_from_none(gamma: float) -> None:
    line = robustness(SensitivityResult(a="new", b="old", gamma=gamma, nats_per_step=0.01))
    shown = float(line.split("by a factor of more than ")[1])
    assert shown != 1
    assert shown == pytest.approx(gamma, rel=5e-4)


def test_a_ranking_that_any_error_reverses_is_called_that() -> None:
    """A factor of 1 is no error: the smallest one would have been shown as that."""
    lines = {robustness(SensitivityResult(a="new", b="old", gamma=g, nats_per_step=1e-5)) for g in (1.0001, 1.0009)}
    assert lines == {"by weights alone, new is above old, and any error of the log-probs may reverse it"}
    assert not robustness(SensitivityResult(a="new", b="old", gamma=1.0, nats_per_step=0.0))


def test_a_gap_of_rounding_makes_no_winner() -> None:
    """Intervals without a width, as old files have them of logs of successes; limits that touch but for rounding."""
    same = headline(evaluation({"old": (1.0 - 3e-16, 1.0 - 3e-16, 1.0 - 3e-16), "new": (1.0, 1.0, 1.0)}))
    assert "is best" not in same.text and "new and old have the same value by dr" in same.text
    touching = headline(evaluation({"old": (0.5, 0.4, 0.55), "new": (0.6, 0.55 + 1e-16, 0.7)}))
    assert "is best" not in touching.text


@pytest.mark.parametrize(("nats", "shown"), [(0.0687, "0.068"), (0.01, "0.01"), (0.0199, "0.019"), (3.99, "3.9")])
def test_the_nats_that_a_ranking_bears_are_never_rounded_up(nats: float, shown: str) -> None:
    line = robustness(SensitivityResult(a="new", b="old", gamma=1.2, nats_per_step=nats))
    assert f"are wrong by more than {shown} nats a step" in line
