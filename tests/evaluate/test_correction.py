"""`wm-magic` in the trials of loggers; its values of candidates are in `test_world_model.py`."""

from types import SimpleNamespace

import numpy as np
import pytest

from worldline.evaluate.correction import corrected_trials
from worldline.ope.certificate import Trial
from worldline.ope.corrected_model import corrected_model, correction, model_variance
from worldline.ope.estimation import EstimatorInput
from worldline.ope.intervals import Interval, error_by
from worldline.ope.log import RaggedLog, TargetLog


def test_wm_magic_is_tried_on_loggers_by_their_weights_on_the_pool() -> None:
    """Two loggers who act alike, one step each; `wm` without the held one says .9 and .7 from every start of the pool.

    What `wm` may err by is its error on the other logger.
    """
    log = RaggedLog(
        rewards=np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
        behaviour=np.log(np.full(8, 0.5)),
        offsets=np.arange(9),
        tasks=np.array([0, 1, 2, 3, 0, 1, 2, 3]),
        policies=np.array([0, 0, 0, 0, 1, 1, 1, 1]),
        terminated=np.ones(8, dtype=np.bool_),
        policy_names=("a", "b"),
    )
    alike = TargetLog(log.behaviour, None)
    config = SimpleNamespace(confidence=0.95, seed=0)
    case = SimpleNamespace(log=log, config=config, plain=EstimatorInput(log, 1.0), loggers={"a": alike, "b": alike})
    trials = [
        Trial("b", ("a",), 0.75, {"wm": Interval(0.9, None, None, 4)}, {}),
        Trial("a", ("b",), 0.25, {"wm": Interval(0.7, None, None, 4)}, {}),
    ]
    imagined = {"b": np.full(4, 0.9), "a": np.full(4, 0.7)}
    tried = corrected_trials(case, trials, trials, imagined, "wm", "wm-magic")  # type: ignore[arg-type]  # stands in for a case
    pools = {"b": log.take(np.arange(4)), "a": log.take(np.arange(4, 8))}
    against = {label: correction(pool, 1.0, np.zeros(4), imagined[label]) for label, pool in pools.items()}
    variance = model_variance([*against.values()])
    assert variance > 0
    for trial, error in zip(tried, (0.45, 0.15), strict=True):
        made = corrected_model(imagined[trial.policy], against[trial.policy], variance, error_by([error], 0.95))
        assert trial.estimates["wm-magic"].value == pytest.approx(made.values.mean())
        low, high = sorted((imagined[trial.policy][0], pools[trial.policy].rewards.mean()))
        assert low < trial.estimates["wm-magic"].value < high
