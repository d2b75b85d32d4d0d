"""How wrong a fitted model's value may be: measured by weights where there are any, else by the log's own policies.

The value of a fitted model (LFQE, DICE, MIPS, ...) has an error that no resample of the log shows. Weighted doubly
robust estimation corrects a model by what the log says against it: the size of that correction, and how uncertain it
is, is the model's error on this very candidate. Without log-probabilities the errors on the loggers are all there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from worldline.ope.alike import unseen_error
from worldline.ope.estimation import ESTIMATORS, Doubt, Estimator, EstimatorInput, Values, estimate
from worldline.ope.estimators import weighted_doubly_robust, weighted_per_decision
from worldline.ope.intervals import error_by, task_units
from worldline.ope.log import Episodes, RefusalError

UNMEASURED = "the model's error is not measured: this log has no log-probs, and no other policy with episodes"


def estimated(
    evidence: EstimatorInput,
    names: Sequence[str],
    estimators: Mapping[str, Estimator] = ESTIMATORS,
    errors: Mapping[str, Sequence[float]] | None = None,
) -> Values:
    """`estimate`, and the errors that no resample shows; `errors` are those of trials: of policies left out of the log.

    Every model has such an error, and every estimate by a log whose returns are all the same.
    """
    results = estimate(evidence, names, estimators)
    models = [name for name in results.values if estimators[name].modelled and name not in results.doubts]
    if models:
        corrected = correction(evidence)
        doubts = {
            name: model_doubt(results.values[name], corrected, (errors or {}).get(name, ()), evidence)
            for name in models
        }
        results = replace(results, doubts=results.doubts | doubts)
    unseen = {name: error for name in results.values if (error := unseen_error(evidence, estimators[name]))}
    also = {name: _added(results.doubts.get(name, Doubt(bias=0.0)), error) for name, error in unseen.items()}
    return replace(results, doubts=results.doubts | also)


def _added(doubt: Doubt, error: float) -> Doubt:
    """The doubt with another independent error."""
    bias = doubt.error if doubt.bias is None else doubt.bias
    return replace(doubt, error=float(np.hypot(doubt.error, error)), bias=float(np.hypot(bias, error)))


def correction(evidence: EstimatorInput) -> Episodes | None:
    """The value per episode to which models are compared: doubly robust, or weighted; None without weights."""
    for function, needs in ((weighted_doubly_robust, ("weights", "value")), (weighted_per_decision, ("weights",))):
        try:
            values = function(evidence.log, evidence.gamma, *(getattr(evidence, need) for need in needs))
        except RefusalError:
            continue
        if np.isfinite(values).all():
            return np.asarray(values)
    return None


def model_doubt(
    values: Episodes, corrected: Episodes | None, errors: Sequence[float], evidence: EstimatorInput
) -> Doubt:
    """The error of one model: its correction's size and standard error by tasks."""
    if corrected is not None:
        difference = corrected - values
        units = task_units(difference[:, None], evidence.log.tasks)
        spread = float(units.std(ddof=1) / np.sqrt(len(units))) if len(units) > 1 else 0.0
        mean = float(difference.mean())
        return Doubt(float(np.hypot(mean, spread)), bias=float(np.sqrt(max(0.0, mean**2 - spread**2))))
    return Doubt(error_by(errors, 0.95)) if len(errors) else Doubt(caveat=UNMEASURED)
