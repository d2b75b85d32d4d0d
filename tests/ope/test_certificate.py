"""The null test, the fixed pools of the certificate, and the artefact they avoid."""

from dataclasses import replace

import numpy as np
import pytest
from tabular_world import TabularLog, TabularWorld

from worldline.ope.certificate import Trial, comparable, leave_out, null_test, record
from worldline.ope.diagnostics import diagnostics, distrust
from worldline.ope.estimation import ESTIMATORS, TARGET_INDEPENDENT, Estimator, EstimatorInput, estimate
from worldline.ope.features import Features
from worldline.ope.intervals import Interval, interval
from worldline.ope.log import Choices, RaggedLog, TargetLog
from worldline.ope.predictors import trivial

NAMES = [name for name in ESTIMATORS if name != "fqe"]  # the network has its own, slower test
WORLD = TabularWorld.random(2, states=4, tasks=30, horizon=4)
POLICIES = [WORLD.policy(k, temperature=0.7) for k in (1, 2, 3, 4)]


@pytest.fixture(scope="module")
def logs() -> list[TabularLog]:
    return [WORLD.play(policy, 300, seed=k) for k, policy in enumerate(POLICIES)]


@pytest.fixture(scope="module")
def evidence(logs: list[TabularLog]) -> EstimatorInput:
    parts = [log.ragged for log in logs]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([p.lengths for p in parts]))])
    log = RaggedLog(
        rewards=np.concatenate([p.rewards for p in parts]),
        behaviour=np.concatenate([p.behaviour for p in parts]),
        offsets=offsets,
        tasks=np.concatenate([p.tasks for p in parts]),
        policies=np.repeat(np.arange(4), 300),
        terminated=np.concatenate([p.terminated for p in parts]),
        policy_names=("a", "b", "c", "d"),
    )
    state, time = (np.concatenate([getattr(x, name) for x in logs]) for name in ("state", "time"))
    rows = np.zeros((log.steps, 64))
    rows[np.arange(log.steps), (time * 4 + state) * 4] = 1.0
    features = Features(rows, np.eye(4, 64), np.concatenate([x.action for x in logs]))
    return EstimatorInput(log, 1.0, text=lambda: features)


def scored(logs: list[TabularLog], policy: np.ndarray) -> TargetLog:
    """One policy's log-probs on all four logs."""
    parts = [log.target(policy) for log in logs]
    choices = [part.choices for part in parts if part.choices is not None]
    sizes = np.concatenate([np.diff(c.offsets) for c in choices])
    return TargetLog(
        np.concatenate([part.logprobs for part in parts]),
        Choices(
            np.concatenate([c.logprobs for c in choices]),
            np.concatenate([c.actions for c in choices]),
            np.concatenate([[0], np.cumsum(sizes)]),
        ),
    )


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
    }  # fmt: skip
    naive, dr = record(trials, "naive"), record(trials, "dr")
    assert naive is not None
    assert dr is not None
    pool = {k: np.mean([evidence.log.returns(1.0)[300 * i : 300 * i + 300].mean() for i in who]) for k, who in
            (("ac", (1, 3)), ("bd", (0, 2)))}  # fmt: skip
    true = [evidence.log.returns(1.0)[300 * i : 300 * i + 300].mean() for i in range(4)]
    expected = np.mean([abs(pool["ac"] - true[0]), abs(pool["ac"] - true[2]), abs(pool["bd"] - true[1]),
                        abs(pool["bd"] - true[3])])  # fmt: skip
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


def test_estimators_without_a_target_are_those_that_need_none(evidence: EstimatorInput) -> None:
    assert set(estimate(evidence, list(ESTIMATORS)).values) == TARGET_INDEPENDENT


def test_leaving_out_in_turn_would_anti_correlate() -> None:
    """Why the pool is fixed: the mean of the others falls exactly when the one left out rises."""
    values = np.array([0.1, 0.4, 0.5, 0.9])
    others = (values.sum() - values) / 3
    assert np.corrcoef(values, others)[0, 1] == pytest.approx(-1.0)


def test_diagnostics_tell_support_and_overlap(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    own = replace(evidence.take(np.arange(300)), target=logs[0].target(POLICIES[0]))
    measured = diagnostics(own, places=logs[0].state)
    assert measured.ess == pytest.approx(300)
    assert (measured.overlap, measured.mean_weight, measured.never) == (pytest.approx(1), pytest.approx(1), 0.0)
    assert measured.support == pytest.approx(1.0)
    foreign = Choices(np.zeros(own.log.steps), np.full(own.log.steps, 9), np.arange(own.log.steps + 1))
    away = replace(own, target=TargetLog(np.full(own.log.steps, -np.inf), foreign))
    gone = diagnostics(away, places=logs[0].state)
    assert (gone.ess, gone.never, gone.support) == (0.0, 1.0, 0.0)
    flag = distrust("lfqe", np.zeros(300), gone, own.log.returns(1.0))
    assert flag is not None
    assert "only 0% of the target's choices" in flag


def test_huge_ratios_flag_is_and_keep_wis(evidence: EstimatorInput) -> None:
    log = evidence.log
    signs = np.repeat(np.where(np.arange(log.episodes) % 2, 1.0, -1.0), log.lengths)
    wild = replace(log, behaviour=np.where(signs > 0, -500.0, 0.0) / np.repeat(log.lengths, log.lengths))
    target = TargetLog(np.where(signs > 0, 0.0, -500.0) / np.repeat(log.lengths, log.lengths))
    far = EstimatorInput(wild, 1.0, target=target)
    measured = diagnostics(far)
    assert measured.ess == pytest.approx(log.episodes / 2, rel=1e-6)
    results = estimate(far, ["is", "wis"])
    assert distrust("is", results.values["is"], measured, log.returns(1.0)) is not None
    assert np.isfinite(results.values["wis"]).all()


def test_an_interval_without_width_is_flagged(evidence: EstimatorInput) -> None:
    """Zero spread among the few that count is no certainty."""
    log = evidence.log
    best = log.returns(1.0).argmax()
    only = np.where(np.repeat(np.arange(log.episodes), log.lengths) == best, 0.0, -np.inf)
    sole = EstimatorInput(log, 1.0, target=TargetLog(only))
    results = estimate(sole, ["wis"]).values["wis"]
    flag = distrust("wis", results, diagnostics(sole), log.returns(1.0))
    assert flag is not None
    assert "have the same return" in flag
    assert "1.0 effective episodes" in flag


def test_refusals_name_what_is_missing(evidence: EstimatorInput) -> None:
    results = estimate(evidence, ["naive", "wis", "lfqe"])
    assert set(results.values) == {"naive"}
    assert "cannot be scored" in results.refused["wis"]
    unlogged = replace(evidence, log=replace(evidence.log, behaviour=np.full(evidence.log.steps, np.nan)))
    scored_target = replace(unlogged, target=TargetLog(np.zeros(evidence.log.steps)))
    results = estimate(scored_target, ["is", "dice", "dm"])
    assert "column 'logprob' is empty" in results.refused["is"]
    assert "probabilities of all admissible actions" in results.refused["dice"]
    assert set(results.values) == {"dm"}
    broken = {"bad": Estimator(lambda log, gamma: np.full(log.episodes, np.nan))}
    assert "not a finite number" in estimate(evidence, ["bad"], broken).refused["bad"]


def test_trivial_predictors(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    target = scored(logs, POLICIES[2])
    results = trivial(replace(evidence, target=target), epsilon=0.4)
    returns = evidence.log.returns(1.0)
    assert results["-epsilon"] == -0.4
    assert results["behaviour mean"] == pytest.approx(returns.mean())
    assert results["nearest logger"] == pytest.approx(returns[600:900].mean())
    assert results["episode length"] is not None
    assert trivial(evidence, 0.0)["nearest logger"] is None
