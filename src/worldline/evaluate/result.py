"""The result of an evaluation: the one model of `evaluation.json`, which `evaluate` writes and `report` reads.

The recommendation is decided in `recommendation`, once. Unknown keys are ignored on reading, so that a file
of a later version can be shown too. Imports no torch.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, ValidationError

from worldline import files
from worldline.evaluate.result_parts import (
    AuditResult,
    Breakdown,
    Certificate,
    CertificateRecord,
    ComparisonResult,
    Estimate,
    PolicyResult,
    ResultModel,
    TrialResult,
)
from worldline.notebook import html_table
from worldline.types import InputError


class Recommendation(ResultModel):
    """The estimator to go by on this log, the candidate that it values most, and why that estimator."""

    estimator: str
    policy: str
    reason: str
    doubts: tuple[str, ...] = ()
    """What `fit` said against its world model, where it is one."""


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
    agreement: dict[str, dict[str, float | None]] = Field(default_factory=dict)
    recommended: Recommendation | None = None
    warnings: tuple[str, ...] = ()
    audit: AuditResult | None = None
    meta: Meta = Meta()

    @property
    def estimators(self) -> tuple[str, ...]:
        return self.meta.estimators or tuple(self.policies[0].estimates)

    def value(self, name: str, estimator: str, epsilon: float = 0.0) -> Estimate:
        """The estimate of one candidate, by its name and epsilon or by its label ("expert@0.5")."""
        for policy in self.policies:
            if (policy.name, policy.epsilon) == (name, epsilon) or (policy.label == name and not epsilon):
                if estimator in policy.estimates:
                    return policy.estimates[estimator]
                raise InputError(f"no estimate '{estimator}' of {policy.label}: {', '.join(policy.estimates)}")
        labels = ", ".join(policy.label for policy in self.policies)
        raise InputError(f"no policy '{name}' at epsilon {epsilon:g} in this evaluation: {labels}")

    def record(self, estimator: str) -> CertificateRecord | None:
        """The certificate of an estimator that was run; None where it has none."""
        if estimator not in self.estimators:
            raise InputError(f"no estimator '{estimator}' was run: {', '.join(self.estimators)}")
        return self.meta.certificate.record.get(estimator)

    def covered(self, estimator: str) -> tuple[int, int]:
        """Of how many trials of the certificate the interval holds the logger's value, and how many have one."""
        trials = [trial.estimates[estimator] for trial in self.meta.certificate.trials if estimator in trial.estimates]
        hits = [each.covers for each in trials if each.covers is not None]
        return sum(hits), len(hits)

    def judged(self, name: str) -> tuple[int, int]:
        """How many policies with a true value an estimator or a predictor values, and how many there are.

        Its agreement is over these: who refuses the hard ones is not the better for it.
        """
        judged = [policy for policy in self.policies if policy.truth is not None]
        values = [
            estimate.value if (estimate := policy.estimates.get(name)) is not None else policy.predictors.get(name)
            for policy in judged
        ]
        return sum(value is not None for value in values), len(judged)

    def null_error(self, estimator: str) -> float | None:
        """The mean error of an estimator on each logger's own episodes; None where none was valued."""
        trials = ((trial.truth, trial.estimates.get(estimator)) for trial in self.meta.null_test)
        pairs = ((truth, own.value) for truth, own in trials if own is not None)
        errors = [abs(value - truth) for truth, value in pairs if truth is not None and value is not None]
        return sum(errors) / len(errors) if errors else None

    @property
    def answer(self) -> str:
        """The recommendation in one line, or why there is none."""
        best = self.recommended
        if best is None:
            return f"no recommendation: {self.meta.no_recommendation}"
        of_all = {policy.label: policy.estimates.get(best.estimator) for policy in self.policies}
        flagged = {label for label, own in of_all.items() if own is not None and own.flag}
        trusted = " that can be trusted" if flagged and best.policy not in flagged else ""
        return f"recommended: {best.policy}, highest value{trusted} by {best.estimator}: {best.reason}"

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
