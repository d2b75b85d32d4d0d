"""Which estimator to go by on this log, and why, or why none."""

from collections.abc import Sequence
from typing import Any

from worldline.evaluate.judged import Judged
from worldline.ope.certificate import Trial, comparable
from worldline.ope.evidence import BLIND


def recommended(
    names: Sequence[str], trials: Sequence[Trial], judged: Sequence[Judged]
) -> tuple[dict[str, Any] | None, str]:
    """The smallest certified error among those that look at the policy, judge every candidate and tell them apart.

    One that is flagged for a candidate is out as long as another is not, certified or not. Errors are compared over
    the same trials: see `comparable`. The second half of the answer is a note for the user.
    """
    able = [name for name in names if name not in BLIND and _tells_apart(name, judged)]
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
