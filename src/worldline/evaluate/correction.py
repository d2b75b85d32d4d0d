"""`wm-magic` on one case: what the log says against `wm`, of every candidate and in the trials of the loggers."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from worldline.evaluate.candidates import Candidate
from worldline.evaluate.case import Case
from worldline.ope.certificate import Trial, pooled
from worldline.ope.corrected_model import CorrectedModel, ModelCorrection, corrected_model, correction, model_variance
from worldline.ope.estimation import EstimatorInput
from worldline.ope.intervals import error_by, interval, widened
from worldline.ope.log import Episodes, RefusalError
from worldline.ope.weights import NO_EVIDENCE


def corrections(
    case: Case, evidence: EstimatorInput, imagined: Callable[[Candidate], Episodes]
) -> dict[str, ModelCorrection]:
    """What the log of `evidence` says against what was imagined, for each candidate that it says something about."""
    against = {}
    for candidate in case.candidates:
        own = evidence.aimed(case.target(candidate))
        with suppress(RefusalError):
            against[candidate.label] = correction(own.log, own.gamma, own.weights, imagined(candidate))
    return against


def corrected_trials(
    case: Case,
    trials: Sequence[Trial],
    measured: Sequence[Trial],
    imagined: Mapping[str, Episodes],
    model: str,
    name: str,
) -> list[Trial]:
    """The trials of `model` with its corrected value, called `name`.

    Each logger is valued from the starts of its pool: `imagined` has these values by logger. What the model may err by
    otherwise is its error on the other loggers in `measured`.
    """
    codes, confidence = {label: code for code, label in enumerate(case.log.policy_names)}, case.config.confidence
    against: dict[str, ModelCorrection] = {}
    inputs: dict[str, EstimatorInput] = {}
    refused: dict[str, str] = {}
    for trial in trials:
        pool = np.array([codes[label] for label in trial.pool], dtype=np.int64)
        try:
            own = inputs[trial.policy] = pooled(case.plain, codes[trial.policy], pool, case.loggers)
            against[trial.policy] = correction(own.log, own.gamma, own.weights, imagined[trial.policy])
        except RefusalError as reason:
            if str(reason) != NO_EVIDENCE:  # else the model is left alone
                refused[trial.policy] = str(reason)
    result = []
    for trial in trials:
        label = trial.policy
        if label in refused:
            result.append(replace(trial, refused=trial.refused | {name: refused[label]}))
            continue
        others = [t.estimates[model].value - t.truth for t in measured if t.policy != label]
        error = error_by(others, confidence)
        made = CorrectedModel(imagined[label], 0.0, error)
        if label in against:
            variance = model_variance([*against.values()], float(np.mean(np.square(others))) if others else 0.0)
            made = corrected_model(imagined[label], against[label], variance, error)
        sampled = interval(made.values, inputs[label].log.tasks, confidence=confidence, seed=case.config.seed)
        estimate = widened(sampled, made.error, confidence)
        result.append(replace(trial, estimates=trial.estimates | {name: estimate}))
    return result
