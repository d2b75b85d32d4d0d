"""`wm-magic` in the trials of loggers; its values of candidates are in `test_world_model.py`."""

from types import SimpleNamespace

import numpy as np
import pytest

from worldline.evaluate.correction import corrected_trials
from worldline.ope.certificate import Trial
from worldline.ope.corrected_model import corrected_model, correction, model_variance
from worldline.ope.estimation import EstimatorInput
from worldline.ope.intervals import Interval, error_by, interval, widened
from worldline.ope.log import RaggedLog, TargetLog

LOG = RaggedLog(
    rewards=np.array([0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
    behaviour=np.log(np.full(8, 0.5)),
    offsets=np.arange(9),
    tasks=np.array([0, 1, 2, 3, 0, 1, 2, 3]),
    policies=np.array([0, 0, 0, 0, 1, 1, 1, 1]),
    terminated=np.ones(8, dtype=np.bool_),
    policy_names=("a", "b"),
)
CONFIG = SimpleNamespace(confidence=0.95, seed=0)
TRIALS = [
    Trial("b", ("a",), 0.75, {"wm": Interval(0.9, None, None, 4)}, {}),
    Trial("a", ("b",), 0.25, {"wm": Interval(0.7, None, None, 4)}, {}),
]
IMAGINED = {"b": np.full(4, 0.9), "a": np.full(4, 0.7)}


def test_wm_magic_is_tried_on_loggers_by_their_weights_on_the_pool() -> None:
    """Two loggers who act alike, one step each; `wm` without the held one says .9 and .7 from every start of the pool.

    What `wm` may err by is its error on the other logger.
    """
    alike = TargetLog(LOG.behaviour, None)
    case = SimpleNamespace(log=LOG, config=CONFIG, plain=EstimatorInput(LOG, 1.0), loggers={"a": alike, "b": alike})
    tried = corrected_trials(case, TRIALS, TRIALS, IMAGINED, "wm", "wm-magic")  # type: ignore[arg-type]  # stands in for a case
    pools = {"b": LOG.take(np.arange(4)), "a": LOG.take(np.arange(4, 8))}
    against = {label: correction(pool, 1.0, np.zeros(4), IMAGINED[label]) for label, pool in pools.items()}
    for trial, error in zip(tried, (0.45, 0.15), strict=True):
        label, own = trial.policy, trial.estimates["wm-magic"]
        variance = model_variance([*against.values()], error**2)
        made = corrected_model(IMAGINED[label], against[label], variance, error_by([error], 0.95))
        wanted = widened(interval(made.values, pools[label].tasks, confidence=0.95, seed=0), made.error, 0.95)
        assert (own.value, own.low, own.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
        low, high = sorted((IMAGINED[label][0], pools[label].rewards.mean()))
        assert low < own.value < high


def test_a_logger_without_log_probs_is_no_trial_and_one_without_overlap_is_wm_with_its_error() -> None:
    never = TargetLog(np.full(8, -np.inf), None)
    case = SimpleNamespace(log=LOG, config=CONFIG, plain=EstimatorInput(LOG, 1.0), loggers={"b": never})
    lone, refused = corrected_trials(case, TRIALS, TRIALS, IMAGINED, "wm", "wm-magic")  # type: ignore[arg-type]  # stands in for a case
    assert "wm-magic" not in refused.estimates
    assert "needs the target's log-probs" in refused.refused["wm-magic"]
    own, error = lone.estimates["wm-magic"], error_by([0.45], 0.95)
    wanted = widened(interval(IMAGINED["b"], LOG.tasks[:4], confidence=0.95, seed=0), error, 0.95)
    assert (own.value, own.low, own.high) == pytest.approx((wanted.value, wanted.low, wanted.high))
