"""The judgement of candidates on arrays: audit, certificate, estimates with intervals and flags, comparison.

`evaluation` makes the arrays from a log folder and policies; a benchmark makes them from a world with exact values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy import special

from worldline.evaluate.result_parts import Estimate
from worldline.ope.audit import Audit, Sharing, audit
from worldline.ope.bounds import PROVEN, Bound, BoundInput, bounded, check_bounds
from worldline.ope.certificate import Trial, balanced, leave_out, null_test
from worldline.ope.comparison import Comparison, compare, logged_values
from worldline.ope.diagnostics import Diagnostics, diagnostics, distrust
from worldline.ope.estimation import Doubt, Estimator, EstimatorInput, Values
from worldline.ope.intervals import Interval, Method, intervals, two_outcomes, within
from worldline.ope.log import Codes, Episodes, RefusalError, Steps, TargetLog
from worldline.ope.model_error import estimated
from worldline.ope.sensitivity import Sensitivity, sensitivity


@dataclass(frozen=True)
class IntervalSettings:
    """How intervals are made."""

    method: Method | Bound = "bootstrap"
    confidence: float = 0.95
    replicates: int = 1000
    seed: int = 0
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class LogEvidence:
    """A log as estimators see it, and the policies that made it, as far as they are given."""

    plain: EstimatorInput
    """With the log-probabilities as they were logged."""
    loggers: Mapping[str, TargetLog] = field(default_factory=dict)
    """Log-probs, on the whole log, of the loggers that are given."""
    places: npt.NDArray[np.int64] | None = None
    """Steps that look the same to the agent share a code; None where the text is not read."""
    kinds: tuple[Codes, ...] = ()
    """Episodes of one split, and those of one family, share a code."""
    chance: Steps | None = None
    """Log-probs of the logged actions under uniform chance; None where it is not known what was admissible."""
    contradictions: tuple[str, ...] = ()
    clones: tuple[str, ...] = ()

    @property
    def starts(self) -> Codes | None:
        return None if self.places is None else self.places[self.plain.log.starts]

    def audited(self, targets: Mapping[str, TargetLog]) -> Audit:
        log, seed = self.plain.log, self.plain.seed
        return audit(log, targets, self.starts, self.kinds, self.chance, self.contradictions, self.clones, seed)

    def weighted(self, tasks: Sharing) -> tuple[EstimatorInput, str | None]:
        """The input of the estimators, and a note: where all loggers are given and share their tasks, their mixture."""
        names = self.plain.log.policy_names
        if not names or len(self.loggers) < len(names):
            return self.plain, None
        if tasks != "shared":
            why = "these do not share their tasks" if tasks == "apart" else "nothing shows that these share their tasks"
            return self.plain, f"weights are not balanced over the loggers: {why}"
        try:
            mixed = balanced(self.plain, [self.loggers[name].logprobs for name in names], range(len(names)))
        except RefusalError as reason:
            return self.plain, f"weights are not balanced over the loggers: {reason}"
        return (
            mixed,
            f"the behaviour policy of the importance weights is the mixture of all loggers ({', '.join(names)})",
        )

    def null(self, names: Sequence[str], settings: IntervalSettings) -> list[Trial]:
        return null_test(self.plain, names, confidence=settings.confidence)

    def leave_out(self, names: Sequence[str], tasks: Sharing, settings: IntervalSettings) -> list[Trial]:
        return leave_out(self.plain, names, self.loggers, confidence=settings.confidence, tasks=tasks)


@dataclass(frozen=True, eq=False)
class Judged:
    """One candidate: values per episode, estimates with intervals and flags, diagnostics."""

    values: Values
    estimates: dict[str, Estimate]
    diagnostics: Diagnostics


def judged(
    evidence: EstimatorInput,
    names: Sequence[str],
    table: Mapping[str, Estimator],
    settings: IntervalSettings,
    reasons: Sequence[str] = (),
    errors: Mapping[str, Sequence[float]] | None = None,
    places: npt.NDArray[np.int64] | None = None,
) -> Judged:
    """All estimates of one candidate; `reasons` is what the audit has against weights, `errors` see `estimated`."""
    values = estimated(evidence, names, table, errors)
    figures = diagnostics(evidence, places)
    rows, unproven = _intervals(values, evidence, settings)
    returns = evidence.log.returns(evidence.gamma)
    ends = two_outcomes(returns)
    estimates: dict[str, Estimate] = {}
    for name, row in rows.items():
        doubt = values.doubts.get(name, Doubt())
        error = _expected_error(row, doubt, settings.confidence)
        if settings.method not in PROVEN:
            row = within(values.widened(name, row, settings.confidence), ends)
        doubts = [distrust(name, values.values[name], figures, returns, table, reasons)]
        flag = "; ".join(reason for reason in (*doubts, doubt.caveat) if reason) or None
        estimates[name] = Estimate(value=row.value, low=row.low, high=row.high, n=row.n, error=error, flag=flag)
    for name, reason in (values.refused | unproven).items():
        estimates[name] = Estimate(value=None, low=None, high=None, n=evidence.log.episodes, refused=reason)
    return Judged(values, estimates, figures)


def _expected_error(sampled: Interval, doubt: Doubt, confidence: float) -> float | None:
    """Of sampling, by the interval before it was widened; and of the model."""
    if sampled.low is None or sampled.high is None:
        return None
    spread = (sampled.high - sampled.low) / (2 * float(special.ndtri((1 + confidence) / 2)))
    return float(np.hypot(spread, doubt.error if doubt.bias is None else doubt.bias))


def _intervals(
    values: Values, evidence: EstimatorInput, settings: IntervalSettings
) -> tuple[dict[str, Interval], dict[str, str]]:
    """By name; and why there is none, where a bound is not proven."""
    log, valued = evidence.log, list(values.values)
    if settings.method == "bootstrap" or settings.method == "student-t":
        columns = [values.values[name] for name in valued]
        made = intervals(columns, log.tasks, settings.method, settings.confidence, settings.replicates, settings.seed)
        return dict(zip(valued, made, strict=True)), {}
    assert settings.bounds is not None
    check_bounds(log, evidence.gamma, settings.bounds)
    clip = evidence.clip or float(np.sqrt(log.episodes))
    rows: dict[str, Interval] = {}
    unproven: dict[str, str] = {}
    for name in valued:
        weighted = name != "naive" and evidence.target is not None
        final = log.last(evidence.weights) if weighted and name in PROVEN[settings.method] else None
        given = BoundInput(log, evidence.gamma, settings.bounds, clip, final)
        try:
            rows[name] = bounded(name, values.values[name], settings.method, given, settings.confidence)
        except RefusalError as reason:
            unproven[name] = str(reason)
    return rows, unproven


def robustness(
    judgements: Mapping[str, Judged], estimator: str, inputs: Mapping[str, EstimatorInput]
) -> Sensitivity | None:
    """How wrong log-probs may be before the first two change places; None without weights or without two candidates."""
    values = {
        label: value for label, each in judgements.items() if (value := each.estimates[estimator].value) is not None
    }
    if len(values) < 2:
        return None
    a, b = sorted(values, key=lambda label: -float(values[label] or 0.0))[:2]
    log = inputs[a].log
    try:
        weights = log.last(inputs[a].weights), log.last(inputs[b].weights)
    except RefusalError:
        return None
    if any(np.isneginf(each).all() for each in weights):
        return None
    return sensitivity(a, b, weights, log.returns(inputs[a].gamma), log.lengths)


def trial_errors(trials: Sequence[Trial], names: Sequence[str]) -> dict[str, list[float]]:
    """Per estimator, its signed error in every trial."""
    return {
        name: [trial.estimates[name].value - trial.truth for trial in trials if name in trial.estimates]
        for name in names
    }


def compared(
    judgements: Mapping[str, Judged],
    estimator: str,
    evidence: EstimatorInput,
    settings: IntervalSettings,
    in_log: Sequence[str] = (),
) -> Comparison | None:
    """The candidates that the estimator values, among themselves and against the loggers; None with one episode.

    `in_log` are loggers that are candidates themselves.
    """
    valued = {label: each.values for label, each in judgements.items() if estimator in each.values.values}
    if not valued or evidence.log.episodes < 2:
        return None
    candidates: dict[str, Episodes] = {label: each.values[estimator] for label, each in valued.items()}
    errors = {label: each.doubts[estimator].error for label, each in valued.items() if estimator in each.doubts}
    returns = evidence.log.returns(evidence.gamma)
    loggers = {n: own for n, own in logged_values(evidence.log, evidence.gamma).items() if n not in in_log}
    spread = float(np.ptp(returns)) or float(np.ptp([v.mean() for v in candidates.values()]))
    return compare(
        candidates,
        loggers,
        evidence.log.tasks,
        errors,
        spread,
        settings.confidence,
        settings.replicates,
        settings.seed,
        two_outcomes(returns),
    )
