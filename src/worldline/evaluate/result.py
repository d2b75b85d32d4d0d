"""The result of an evaluation: the one model of `evaluation.json`, which `evaluate` writes and `report` reads.

The recommendation is decided in `recommendation`, once. Keys that are not known are ignored on reading, so that a file
of a later version can be shown too. Imports no torch.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer

from worldline import files
from worldline.notebook import html_table
from worldline.ope.audit import Audit
from worldline.ope.certificate import Trial
from worldline.ope.comparison import Comparison
from worldline.ope.diagnostics import Diagnostics
from worldline.ope.sensitivity import Sensitivity
from worldline.types import InputError, policy_label


class ResultModel(BaseModel):
    """A part of the result."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True)
    omitted: ClassVar[tuple[str, ...]] = ()
    """Fields that the file leaves out where they are None."""

    @model_serializer(mode="wrap")
    def _without_omitted(self, serialize: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in serialize(self).items() if value is not None or key not in self.omitted}


class Estimate(ResultModel):
    """One estimator's value of one candidate, with an interval; or the reason why there is none."""

    omitted: ClassVar[tuple[str, ...]] = ("error", "rank", "flag", "refused")

    value: float | None
    low: float | None
    high: float | None
    n: int
    error: float | None = None
    """Expected error: sampling, and the bias of a model as far as it is measured."""
    rank: int | None = None
    """1 is the highest value of all candidates; equal values share a rank."""
    flag: str | None = None
    """Why not to trust it."""
    refused: str | None = None

    @property
    def doubt(self) -> str:
        """Why there is no value, or why not to trust it; empty where nothing speaks against it."""
        return f"refused: {self.refused}" if self.refused else self.flag or ""


class PolicyResult(ResultModel):
    """Everything about one candidate: a policy at one epsilon."""

    omitted: ClassVar[tuple[str, ...]] = ("diagnostics", "truth")

    name: str
    epsilon: float = 0.0
    estimates: dict[str, Estimate]
    predictors: dict[str, float | None] = {}
    diagnostics: Diagnostics | None = None
    truth: float | None = None

    @property
    def label(self) -> str:
        return policy_label(self.name, self.epsilon)


class TrialEstimate(ResultModel):
    """An estimate of a logger, whose value is known; `covers`: whether that lies in the interval, None without one."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    covers: bool | None = None


class TrialResult(ResultModel):
    """A logger estimated as if unknown, from the episodes of `pool`; `truth` is its own mean return."""

    policy: str
    pool: tuple[str, ...] = ()
    truth: float | None = None
    estimates: dict[str, TrialEstimate] = {}
    refused: dict[str, str] = {}


class CertificateRecord(ResultModel):
    """How an estimator did over all trials."""

    trials: int
    mae: float | None
    bias: float | None = None
    coverage: float | None = None
    pairwise: float | None = None


class Certificate(ResultModel):
    """Each logger estimated from the episodes of others, and what each estimator's errors add up to."""

    trials: tuple[TrialResult, ...] = ()
    record: dict[str, CertificateRecord] = {}


class DifferenceResult(ResultModel):
    """value(a) - value(b); `at_least` holds on one side with the evaluation's confidence; `p` is P(a > b)."""

    a: str
    b: str
    value: float
    low: float | None
    high: float | None
    at_least: float | None = None
    p: float


class SensitivityResult(ResultModel):
    """The ranking of a over b holds while every episode's weight is right within the factor `gamma`."""

    a: str
    b: str
    gamma: float
    nats_per_step: float


class WinnerResult(ResultModel):
    """The candidate of the highest estimate; `corrected` allows for its having been picked among several."""

    policy: str
    value: float
    corrected: float
    low: float
    high: float


class SimultaneousInterval(ResultModel):
    """An interval that holds together with those of all other candidates."""

    low: float | None
    high: float | None


class ComparisonResult(ResultModel):
    """Which candidate is better, and how sure, by one estimator; `b` of a difference may be 'logged NAME'."""

    estimator: str
    differences: tuple[DifferenceResult, ...] = ()
    p_best: dict[str, float] = {}
    simultaneous: dict[str, SimultaneousInterval] = {}
    winner: WinnerResult | None = None
    sensitivity: SensitivityResult | None = None
    """Between the first two; None where there are no weights."""


class GroupResult(ResultModel):
    """The candidates on one group of episodes; `difference` is between the first two of the whole log."""

    group: str
    episodes: int
    estimates: dict[str, Estimate]
    difference: DifferenceResult | None = None


class Breakdown(ResultModel):
    """Values and difference by a column of the log; `p` is the chance of groups this different if none differs."""

    column: str
    estimator: str
    groups: tuple[GroupResult, ...] = ()
    p: float | None = None


class ProbeResult(ResultModel):
    """The mean step weight of a policy on a logger's steps: 1 is due."""

    policy: str
    logger: str
    mean: float
    error: float
    convicts: bool


class AuditResult(ResultModel):
    """What was tested about the log before any estimate."""

    shared_tasks: bool = True
    reasons: tuple[str, ...] = ()
    """Why no weight on this log can be trusted."""
    probes: tuple[ProbeResult, ...] = ()


class Recommendation(ResultModel):
    """The estimator to go by on this log, the candidate that it values most, and why that estimator."""

    estimator: str
    policy: str
    reason: str


class Meta(ResultModel):
    """What was evaluated and how; what the estimators are worth on this log."""

    omitted: ClassVar[tuple[str, ...]] = ("sensitivity", "no_recommendation")

    log: tuple[str, ...] = ()
    episodes: int | None = None
    steps: int | None = None
    tasks: int | None = None
    loggers: tuple[str, ...] = ()
    estimators: tuple[str, ...] = ()
    gamma: float | None = None
    interval: str | None = None
    confidence: float = 0.95
    bootstrap: int | None = None
    seed: int | None = None
    no_recommendation: str | None = None
    """Why no estimator is recommended, where none is."""
    null_test: tuple[TrialResult, ...] = ()
    certificate: Certificate = Certificate()
    sensitivity: list[dict[str, Any]] | None = None
    """Per guidance setting, the candidates' imagined values."""


class Evaluation(ResultModel):
    """What `evaluation.json` holds."""

    omitted: ClassVar[tuple[str, ...]] = ("comparison", "breakdown", "audit")

    policies: tuple[PolicyResult, ...]
    comparison: ComparisonResult | None = None
    breakdown: Breakdown | None = None
    agreement: dict[str, dict[str, float | None]] = {}
    recommended: Recommendation | None = None
    warnings: tuple[str, ...] = ()
    audit: AuditResult | None = None
    meta: Meta = Meta()

    @property
    def estimators(self) -> tuple[str, ...]:
        return self.meta.estimators or tuple(self.policies[0].estimates)

    def value(self, name: str, estimator: str, epsilon: float = 0.0) -> Estimate:
        """The estimate of one candidate."""
        for policy in self.policies:
            if (policy.name, policy.epsilon) == (name, epsilon) and estimator in policy.estimates:
                return policy.estimates[estimator]
        raise InputError(f"no estimate '{estimator}' of policy '{name}' at epsilon {epsilon:g} in this evaluation")

    def record(self, estimator: str) -> CertificateRecord | None:
        """The certificate of one estimator; None where it has none."""
        return self.meta.certificate.record.get(estimator)

    @property
    def answer(self) -> str:
        """The recommendation in one line, or why there is none."""
        best = self.recommended
        if best is None:
            return f"no recommendation: {self.meta.no_recommendation}"
        return f"recommended: {best.policy}, highest value by {best.estimator}: {best.reason}"

    def __repr__(self) -> str:
        values = (f"{policy.label}: {_estimates_of(policy)}" for policy in self.policies)
        return "\n".join([self.answer, *values])

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """A row per candidate, a column per estimator; a star marks a reason for doubt."""
        rows = [
            (policy.label, *(_shown(policy.estimates[name]) for name in self.estimators)) for policy in self.policies
        ]
        return html_table(self.answer, ("policy", *self.estimators), rows)

    def as_dict(self) -> dict[str, Any]:
        """As in evaluation.json: a number that is not finite is None."""
        content: dict[str, Any] = files.finite(self.model_dump(mode="json"))
        return content

    def write(self, path: Path) -> None:
        files.write_json(path, self.as_dict())


def _shown(estimate: Estimate) -> str:
    """Value and interval; a star where there is a reason for doubt."""
    if estimate.value is None:
        return "refused"
    span = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.3f}, {estimate.high:.3f}]"
    return f"{estimate.value:.3f}{'*' if estimate.doubt else ''}{span}"


def _estimates_of(policy: PolicyResult) -> str:
    return ", ".join(f"{name} {_shown(estimate)}" for name, estimate in policy.estimates.items())


def read_evaluation(path: Path) -> Evaluation:
    """The evaluation in a file; InputError names the field that is wrong."""
    try:
        evaluation = Evaluation.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InputError(f"{path}: no evaluation: '{where}': {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: corrupt: not JSON: {error}") from None
    if not evaluation.policies or not evaluation.estimators:
        raise InputError(f"{path}: holds no estimate: 'policies' or their 'estimates' are empty")
    return evaluation


def trial_result(trial: Trial) -> TrialResult:
    """A trial as the file has it."""
    estimates = {
        name: TrialEstimate(value=e.value, low=e.low, high=e.high, n=e.n, covers=trial.covers(name))
        for name, e in trial.estimates.items()
    }
    return TrialResult(
        policy=trial.policy, pool=trial.pool, truth=trial.truth, estimates=estimates, refused=trial.refused
    )


def comparison_result(
    estimator: str, comparison: Comparison, sensitivity: Sensitivity | None = None
) -> ComparisonResult:
    """A comparison as the file has it."""
    return ComparisonResult(
        estimator=estimator,
        differences=tuple(DifferenceResult.model_validate(each) for each in comparison.differences),
        p_best=comparison.p_best,
        simultaneous={
            label: SimultaneousInterval.model_validate(interval) for label, interval in comparison.simultaneous.items()
        },
        winner=WinnerResult.model_validate(comparison.winner),
        sensitivity=SensitivityResult.model_validate(sensitivity) if sensitivity is not None else None,
    )


def audit_result(audit: Audit) -> AuditResult:
    """An audit as the file has it."""
    return AuditResult(
        shared_tasks=audit.shared_tasks,
        reasons=audit.reasons,
        probes=tuple(ProbeResult.model_validate(probe) for probe in audit.probes),
    )
