"""The null test, the fixed pools of the certificate, and the artefact they avoid."""

from dataclasses import replace

import numpy as np
import pytest
from four_loggers import POLICIES, scored
from tabular_world import TabularLog

from worldline.ope.certificate import Trial, comparable, leave_out, null_test, record
from worldline.ope.estimation import ESTIMATORS, EstimatorInput
from worldline.ope.intervals import Interval, interval
from worldline.ope.log import RaggedLog

NAMES = [name for name in ESTIMATORS if name != "fqe"]  # the network has its own, slower test


def test_every_estimator_passes_the_null_test(evidence: EstimatorInput) -> None:
    trials = null_test(evidence, NAMES)
    assert [trial.policy for trial in trials] == ["a", "b", "c", "d"]
    for trial in trials:
        assert not trial.refused
        for name in NAMES:
            assert trial.covers(name), (trial.policy, name, trial.estimates[name], trial.truth)


def own_variance(evidence: EstimatorInput, first: int) -> float:
    """Of the mean of 300 episodes, from the sums of each task's deviations."""
    own = slice(first, first + 300)
    returns, tasks = evidence.log.returns(1.0)[own], evidence.log.tasks[own]
    sums = [(returns[tasks == task] - returns.mean()).sum() for task in np.unique(tasks)]
    return float(np.square(sums).sum() / 300**2 * len(sums) / (len(sums) - 1))


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
    others = [pool["ac"], pool["bd"], pool["ac"], pool["bd"]]
    squares = [(others[i] - true[i]) ** 2 - own_variance(evidence, 300 * i) for i in range(4)]
    expected = np.mean([np.sqrt(max(0.0, square)) for square in squares])
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


def test_a_truth_that_is_a_mean_of_few_episodes_has_an_error() -> None:
    trial = Trial("a", ("b",), 1.0, {"x": Interval(1.5, 1.4, 1.6, 9)}, {}, truth_error=0.4, truth_episodes=10)
    assert trial.covers("x"), "1.5 - 1.96 x .4 is below 1"
    assert not replace(trial, truth_error=0.2).covers("x")
    assert trial.error("x") == pytest.approx(0.3), "the root of .5^2 - .4^2"
    assert replace(trial, truth_error=0.6).error("x") == 0.0
    done = record([trial, replace(trial, truth=1.5)], "x")
    assert done is not None
    assert (done.mae, done.bias, done.coverage) == (pytest.approx(0.15), pytest.approx(0.25), 1.0)


def test_a_sound_estimator_is_not_blamed_for_its_loggers_luck() -> None:
    """Two loggers of value 1/2, one of 20 episodes: the mean of the other's 400 misses by .025, and is right."""
    hits, corrected, raw = 0, [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        returns = (rng.random(420) < 0.5).astype(float)
        log = RaggedLog(
            returns,
            np.full(420, np.log(0.5)),
            np.arange(421),
            np.arange(420),
            np.repeat([0, 1], [20, 400]),
            np.ones(420, dtype=np.bool_),
            policy_names=("few", "many"),
        )
        few = next(trial for trial in leave_out(EstimatorInput(log, 1.0), ["naive"], {}) if trial.policy == "few")
        assert few.truth_error == pytest.approx(returns[:20].std(ddof=1) / np.sqrt(20))
        assert few.truth_episodes == 20
        hits += bool(few.covers("naive"))
        corrected.append(few.error("naive"))
        raw.append(abs(few.estimates["naive"].value - few.truth))
    assert hits >= 0.9 * 150, hits
    assert np.mean(corrected) < 0.6 * np.mean(raw), "of .09, most is the luck of 20 episodes"
