"""What an evaluation says of each policy, and which estimator to go by on this log, and why, or why none."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from worldline.evaluate.candidates import Candidate
from worldline.ope.certificate import Trial, comparable
from worldline.ope.diagnostics import Diagnostics
from worldline.ope.estimation import TARGET_INDEPENDENT


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


def recommended(
    names: Sequence[str], trials: Sequence[Trial], judged: Sequence[Judged]
) -> tuple[dict[str, Any] | None, str]:
    """The smallest certified error among those that look at the policy, judge every candidate and tell them apart.

    One that is flagged for a candidate is out as long as another is not, certified or not. Errors are compared over
    the same trials: see `comparable`. The second half of the answer is a note for the user.
    """
    able = [name for name in names if name not in TARGET_INDEPENDENT and _tells_apart(name, judged)]
    if not able:
        return None, "no recommendation: no estimator that looks at the policy judges, and tells apart, all candidates"
    sound = [name for name in able if not any(j.estimates[name].flag for j in judged)]
    errors = comparable(trials, sound or able)
    if not errors:
        flagged = ", the others are flagged" if 0 < len(sound) < len(able) else ""
        return None, f"no recommendation: nothing certifies {', '.join(sound or able)} on this log{flagged}"
    best, *rest = sorted(errors, key=lambda name: errors[name])
    ahead = f", {rest[0]} {errors[rest[0]]:.3f}" if rest else ""
    caveat = "" if sound else "; every estimator is flagged for some candidate, this one too"
    note = f"recommended here: {best}, certified error {errors[best]:.3f}{ahead}{caveat}"
    return {"estimator": best, "error": errors[best], "errors": errors}, note


def _tells_apart(name: str, judged: Sequence[Judged]) -> bool:
    values = {j.estimates[name].value for j in judged}
    return None not in values and len(values) > min(1, len(judged) - 1)
