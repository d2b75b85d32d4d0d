"""The error of fitted models: by the doubly robust correction, by policies left out of the log, or not measured."""

from dataclasses import replace

import numpy as np
import pytest
from four_loggers import POLICIES, WORLD, scored
from tabular_world import TabularLog

from worldline.ope.diagnostics import diagnostics, distrust
from worldline.ope.estimation import ESTIMATORS, Estimator, EstimatorInput
from worldline.ope.estimators import weighted_doubly_robust, weighted_per_decision
from worldline.ope.features import Features
from worldline.ope.intervals import error_by, interval
from worldline.ope.log import TargetLog
from worldline.ope.model_error import UNMEASURED, correction, estimated


def test_a_model_that_is_wrong_by_a_constant_knows_it(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    """WDR measures the constant, up to its own noise; the interval then covers the exact value."""
    target = WORLD.mixed(POLICIES[0], 0.1)
    scored_input = replace(evidence, target=scored(logs, target))
    reference = weighted_doubly_robust(evidence.log, 1.0, scored_input.weights, scored_input.value)
    wrong = {"off": Estimator(lambda log, gamma: np.full(log.episodes, reference.mean() + 0.3), modelled=True)}
    results = estimated(scored_input, ["off"], wrong)
    assert results.doubts["off"].error == pytest.approx(0.3, abs=0.05)
    assert results.doubts["off"].bias == pytest.approx(0.3, abs=0.05)
    row = results.widened("off", interval(results.values["off"], evidence.log.tasks), 0.95)
    assert row.low is not None
    assert row.low < WORLD.value(target, 1.0) < row.value


def test_fitted_estimates_cover_the_exact_value() -> None:
    """Features that cannot tell states apart: LFQE and DICE are biased, and their intervals must hold that."""
    target = WORLD.mixed(WORLD.policy(1, temperature=0.7), 0.4)
    behaviour = WORLD.mixed(WORLD.policy(1, temperature=0.7), 0.8)
    exact, names = WORLD.value(target, 1.0), ("lfqe", "dice", "magic", "qreg", "mips", "mis")
    before, after = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for seed in range(40):
        played = WORLD.play(behaviour, 400, seed, drawn_tasks=200)
        blind = Features(np.eye(1, 16).repeat(len(played.state), axis=0), np.eye(4, 16), played.action)
        evidence = EstimatorInput(played.ragged, 1.0, played.target(target), text=lambda blind=blind: blind)
        results = estimated(evidence, names)
        for name in names:
            row = interval(results.values[name], evidence.log.tasks, replicates=300)
            wide = results.widened(name, row, 0.95)
            before[name] += (row.low or 0) <= exact <= (row.high or 0)
            after[name] += (wide.low or 0) <= exact <= (wide.high or 0)
    assert all(count >= 36 for count in after.values()), after
    assert min(before["lfqe"], before["dice"]) < 30, before


def test_without_log_probs_known_policies_tell_the_error(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    blank = replace(evidence.log, behaviour=np.full(evidence.log.steps, np.nan))
    unlogged = replace(evidence, log=blank, target=scored(logs, POLICIES[0]))
    assert correction(unlogged) is None
    assert estimated(unlogged, ["lfqe"]).doubts["lfqe"].caveat == UNMEASURED
    errors = estimated(unlogged, ["lfqe"], errors={"lfqe": [0.1, -0.2]}).doubts["lfqe"]
    assert errors.error == pytest.approx(error_by([0.1, -0.2], 0.95))
    assert errors.caveat is None


def test_without_admissible_actions_weights_alone_correct(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    target = TargetLog(scored(logs, POLICIES[0]).logprobs)
    scored_input = replace(evidence, target=target)
    expected = weighted_per_decision(evidence.log, 1.0, scored_input.weights)
    np.testing.assert_array_equal(correction(scored_input), expected)


def test_low_overlap_flags_fitted_estimators_too(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    """Sure of itself, with full support, and nothing has measured its error: the weights say nothing here."""
    few = replace(
        evidence.take(np.arange(300)), target=logs[0].target(POLICIES[1] ** 8 / (POLICIES[1] ** 8).sum(1)[:, None])
    )
    measured = diagnostics(few, places=logs[0].state)
    assert measured.ess is not None
    assert measured.ess < 25
    for name in ("lfqe", "dice", "qreg", "mips", "mis", "magic"):
        flag = distrust(name, np.full(300, 0.5), measured, few.log.returns(1.0))
        assert "effective episodes" in (flag or ""), name
    assert {name for name, entry in ESTIMATORS.items() if entry.modelled} == {
        "lfqe", "fqe", "dice", "qreg", "mips", "mis", "magic"
    }  # packed lines read better  # fmt: skip
