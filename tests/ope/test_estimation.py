"""Which estimators run on which input, and the reason of each refusal."""

from dataclasses import replace

import numpy as np

from worldline.ope.estimation import ESTIMATORS, TARGET_INDEPENDENT, Estimator, EstimatorInput, estimate
from worldline.ope.log import TargetLog


def test_estimators_without_a_target_are_those_that_need_none(evidence: EstimatorInput) -> None:
    assert set(estimate(evidence, list(ESTIMATORS)).values) == TARGET_INDEPENDENT


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
