"""What a result consists of: estimates, trials, comparison, breakdown and audit, as `evaluation.json` has them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_serializer

from worldline.ope.audit import Audit
from worldline.ope.certificate import Trial
from worldline.ope.comparison import Comparison
from worldline.ope.diagnostics import Diagnostics
from worldline.ope.intervals import ROUNDING
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
    """1 is the highest value of all candidates; values that are equal but for rounding share a rank."""
    flag: str | None = None
    """Why not to trust it."""
    refused: str | None = None

    @property
    def doubt(self) -> str:
        """Why there is no value, or why not to trust it; empty where nothing speaks against it."""
        return f"refused: {self.refused}" if self.refused else self.flag or ""


def rounding(estimates: Iterable[Estimate]) -> float:
    """How far values may lie apart that differ by how sums are rounded, as the sizes of values and limits have it."""
    numbers = (number for each in estimates for number in (each.value, each.low, each.high) if number is not None)
    return ROUNDING * max(map(abs, numbers), default=0.0)


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
    """An estimate of a logger; `covers`: whether its own mean lies in the interval with that mean's error added."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    covers: bool | None = None


class TrialResult(ResultModel):
    """A logger estimated as if unknown, from the episodes of `pool`; `truth` is its own mean return."""

    omitted: ClassVar[tuple[str, ...]] = ("truth_error", "truth_episodes")

    policy: str
    pool: tuple[str, ...] = ()
    truth: float | None = None
    truth_error: float | None = None
    """Standard error of that mean, where it stands for the logger's value."""
    truth_episodes: int | None = None
    """Whose mean it is."""
    estimates: dict[str, TrialEstimate] = {}
    refused: dict[str, str] = {}


class CertificateRecord(ResultModel):
    """How an estimator did over all trials; `mae` and `coverage` know that a logger's own mean has an error, too."""

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
    """Whether the loggers are shown to share theirs."""
    reasons: tuple[str, ...] = ()
    """Why no weight on this log can be trusted."""
    probes: tuple[ProbeResult, ...] = ()


def trial_result(trial: Trial) -> TrialResult:
    """A trial as the file has it."""
    estimates = {
        name: TrialEstimate(value=e.value, low=e.low, high=e.high, n=e.n, covers=trial.covers(name))
        for name, e in trial.estimates.items()
    }
    return TrialResult(
        policy=trial.policy,
        pool=trial.pool,
        truth=trial.truth,
        truth_error=trial.truth_error if trial.truth_episodes else None,
        truth_episodes=trial.truth_episodes or None,
        estimates=estimates,
        refused=trial.refused,
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
        shared_tasks=audit.tasks == "shared",
        reasons=audit.reasons,
        probes=tuple(ProbeResult.model_validate(probe) for probe in audit.probes),
    )


def check_estimated(policies: Sequence[PolicyResult]) -> None:
    """InputError where every estimator refuses every candidate: there is nothing to show."""
    estimates = [(name, each) for policy in policies for name, each in policy.estimates.items()]
    if any(each.value is not None for _, each in estimates):
        return
    names: dict[str, list[str]] = {}
    for name, each in dict(estimates).items():
        names.setdefault(each.refused or "", []).append(name)
    why = "; ".join(f"{', '.join(those)}: {reason}" for reason, those in names.items())
    raise InputError(f"--estimators: none of these values any candidate: {why}")


def ranked_policies(policies: Sequence[PolicyResult], names: Sequence[str]) -> list[PolicyResult]:
    """The policies with the ranks of their estimates."""
    values = {name: [v for p in policies if (v := p.estimates[name].value) is not None] for name in names}
    slack = {name: rounding(p.estimates[name] for p in policies) for name in names}

    def ranked(name: str, estimate: Estimate) -> Estimate:
        if estimate.value is None:
            return estimate
        least = estimate.value + slack[name]
        return estimate.model_copy(update={"rank": 1 + sum(other > least for other in values[name])})

    return [
        policy.model_copy(update={"estimates": {name: ranked(name, e) for name, e in policy.estimates.items()}})
        for policy in policies
    ]
