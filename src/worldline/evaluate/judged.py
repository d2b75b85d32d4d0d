"""A candidate as an evaluation judges it: each estimator's word on it, and what the log says about it."""

from dataclasses import asdict, dataclass
from typing import Any

from worldline.evaluate.candidates import Candidate
from worldline.ope.diagnostics import Diagnostics


@dataclass(frozen=True)
class Estimate:
    """One estimator's word on one candidate: a number with an interval, or the reason why there is none."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    rank: int | None = None
    flag: str | None = None
    """Why not to trust it."""
    refused: str | None = None


@dataclass(frozen=True)
class Judged:
    """Everything about one candidate."""

    candidate: Candidate
    diagnostics: Diagnostics
    estimates: dict[str, Estimate]
    predictors: dict[str, float | None]
    truth: float | None

    def as_dict(self) -> dict[str, Any]:
        """A row of `policies` in evaluation.json."""
        estimates = {
            name: {k: v for k, v in asdict(e).items() if v is not None or k in ("value", "low", "high", "n")}
            for name, e in self.estimates.items()
        }
        told: dict[str, Any] = {
            "name": self.candidate.name,
            "epsilon": self.candidate.epsilon,
            "estimates": estimates,
            "predictors": self.predictors,
            "diagnostics": self.diagnostics.as_dict(),
        }
        return told | ({"truth": self.truth} if self.truth is not None else {})
