"""The null test, the fixed pools of the certificate, and the artefact they avoid."""

from dataclasses import replace

import numpy as np
import pytest
from four_loggers import POLICIES, scored
from tabular_world import TabularLog

from worldline.ope.certificate import Trial, comparable, leave_out, null_test, record
from worldline.ope.estimation import ESTIMATORS, EstimatorInput
from worldline.ope.intervals import Interval, interval

NAMES = [name for name in ESTIMATORS if name != "fqe"]  # the network has its own, slower test


def test_every_estimator_passes_the_null_test(evidence: EstimatorInput) -> None:
    trials = null_test(evidence, NAMES)
    assert [trial.policy for trial in trials] == ["a", "b", "c", "d"]
    for trial in trials:
        assert not trial.refused
        for name in NAMES:
            assert trial.covers(name), (trial.policy, name, trial.estimates[name], trial.truth)


def test_certificate_measures_the_real_error(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    loggers = {name: scored(logs, policy) for name, policy in zip("abcd", POLICIES, strict=True)}
    trials = leave_out(evidence, NAMES, loggers)
    assert {(t.policy, t.pool) for t in trials} == {
        ("a", ("b", "d")), ("c", ("b", "d")), ("b", ("a", "c")), ("d", ("a", "c"))
    }  # packed lines read better  # fmt: skip
    naive, dr = record(trials, "naive"), record(trials, "dr")
    assert naive is not None
    assert dr is not None
    pool = {k: np.mean([evidence.log.returns(1.0)[300 * i : 300 * i + 300].mean() for i in who]) for k, who in
            (("ac", (1, 3)), ("bd", (0, 2)))}  # packed lines read better  # fmt: skip
    true = [evidence.log.returns(1.0)[300 * i : 300 * i + 300].mean() for i in range(4)]
    expected = np.mean([abs(pool["ac"] - true[0]), abs(pool["ac"] - true[2]), abs(pool["bd"] - true[1]),
                        abs(pool["bd"] - true[3])])  # packed lines read better  # fmt: skip
    assert naive.mae == pytest.approx(expected)
    assert naive.pairwise == 0.5
    assert dr.mae < 0.5 * naive.mae
    assert dr.pairwise == 1.0


def test_a_logger_without_logprobs_gets_no_weights(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    trials = leave_out(evidence, ["naive", "wis"], {"a": scored(logs, POLICIES[0])})
    for trial in trials:
        assert "naive" in trial.estimates
        assert ("wis" in trial.estimates) == (trial.policy == "a")


def test_an_impossible_mixture_refuses_its_trials(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    """Two loggers give a logged action probability 0: estimators that weight by their mixture refuse, no others do."""
    loggers = {name: scored(logs, policy) for name, policy in zip("abcd", POLICIES, strict=True)}
    first = int(evidence.log.offsets[300])  # the first step of the first episode of 'b'
    for name in "bd":
        denied = loggers[name].logprobs.copy()
        denied[first] = -np.inf
        loggers[name] = replace(loggers[name], logprobs=denied)
    for trial in leave_out(evidence, ["naive", "lfqe", "wis", "dr"], loggers):
        if trial.pool == ("b", "d"):
            assert set(trial.estimates) == {"naive", "lfqe"}
            assert all("probability 0" in trial.refused[name] for name in ("wis", "dr"))
        else:
            assert not trial.refused


def test_errors_are_compared_over_the_same_trials() -> None:
    """Who answers the easy one only has the smaller mean error, and is not compared."""
    easy = Trial("a", ("b",), 1.0, {"brave": _point(1.1), "timid": _point(1.05), "none": _point(1.0)}, {})
    hard = Trial("b", ("a",), 0.0, {"brave": _point(0.3), "none": _point(0.0)}, {"timid": "no overlap"})
    timid, brave = record([easy, hard], "timid"), record([easy, hard], "brave")
    assert timid is not None
    assert brave is not None
    assert timid.mae < brave.mae
    assert comparable([easy, hard], ["brave", "timid", "mute"]) == {"brave": pytest.approx(0.2)}
    assert comparable([easy], ["brave", "timid"]) == {"brave": pytest.approx(0.1), "timid": pytest.approx(0.05)}
    assert comparable([], ["brave"]) == {}


def _point(value: float) -> Interval:
    return Interval(value, None, None, 1)


def test_an_estimate_without_interval_is_not_tried() -> None:
    bare = Trial("a", ("b",), 1.0, {"x": _point(5.0)}, {})
    missed = Trial("b", ("a",), 1.0, {"x": Interval(5.0, 4.0, None, 9)}, {})
    assert bare.covers("x") is None
    assert missed.covers("x") is False
    alone, both = record([bare], "x"), record([bare, missed], "x")
    assert alone is not None
    assert both is not None
    assert (alone.coverage, both.coverage) == (None, 0.0)


def test_trials_have_the_requested_confidence(evidence: EstimatorInput) -> None:
    for k, trial in enumerate(null_test(evidence, ["naive"], confidence=0.5)):
        own = evidence.take(np.arange(300 * k, 300 * k + 300)).log
        assert trial.estimates["naive"] == interval(own.returns(1.0), own.tasks, confidence=0.5)


def test_leaving_out_in_turn_would_anti_correlate() -> None:
    """Why the pool is fixed: the mean of the others falls exactly when the one left out rises."""
    values = np.array([0.1, 0.4, 0.5, 0.9])
    others = (values.sum() - values) / 3
    assert np.corrcoef(values, others)[0, 1] == pytest.approx(-1.0)
