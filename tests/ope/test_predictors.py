"""The trivial predictors against their definitions."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from four_loggers import POLICIES, scored
from tabular_world import TabularLog

from worldline.ope.estimation import EstimatorInput
from worldline.ope.log import RaggedLog, TargetLog
from worldline.ope.predictors import trivial


def log_weights(log: RaggedLog, target: TargetLog) -> npt.NDArray[np.float64]:
    """log rho_{1:T} of each episode."""
    ratios = target.logprobs - log.behaviour
    return np.array([ratios[start:end].sum() for start, end in zip(log.offsets[:-1], log.offsets[1:], strict=True)])


def test_trivial_predictors(evidence: EstimatorInput, logs: list[TabularLog]) -> None:
    target = scored(logs, POLICIES[2])
    results = trivial(replace(evidence, target=target), epsilon=0.4)
    returns = evidence.log.returns(1.0)
    assert results["-epsilon"] == -0.4
    assert results["behaviour mean"] == pytest.approx(returns.mean())
    assert results["nearest logger"] == pytest.approx(returns[600:900].mean())
    weights = np.exp(log_weights(evidence.log, target))
    assert results["episode length"] == pytest.approx(-np.average(evidence.log.lengths, weights=weights))
    assert trivial(evidence, 0.0)["nearest logger"] is None
