"""What an evaluation advises: what its comparison rests on, which log would help, how wrong the log-probs may be."""

from worldline.evaluate.result import Evaluation
from worldline.evaluate.result_parts import SensitivityResult
from worldline.ope.diagnostics import LEAST_ESS, LEAST_SUPPORT

SHOWN = 0.0005
"""A probability this far from a half is shown as another."""


def what_to_collect(evaluation: Evaluation) -> list[str]:
    """What log would help: for each candidate that this one hardly covers."""
    lines = []
    for policy in evaluation.policies:
        seen = policy.diagnostics
        if seen is None:
            continue
        if seen.support is not None and seen.support < LEAST_SUPPORT:
            share = f"only {seen.support:.0%} of what {policy.label} would do was ever tried in the log"
            lines.append(f"{share}: collect episodes of {policy.label} itself, or of a policy near it")
        elif seen.ess is not None and seen.ess < LEAST_ESS:
            count = f"only {seen.ess:.1f} episodes' worth of the log is like {policy.label}"
            lines.append(f"{count} (at least {LEAST_ESS:g} are needed): collect more episodes of policies near it")
    return lines


def compared_by(evaluation: Evaluation) -> str:
    """The estimator of the comparison, and what speaks against it; empty where nobody is compared."""
    if evaluation.comparison is None:
        return ""
    name = evaluation.comparison.estimator
    flagged = [
        policy.label for policy in evaluation.policies if name in policy.estimates and policy.estimates[name].flag
    ]
    doubts = [] if evaluation.recommended else ["which is not recommended"]
    doubts += [f"do not trust its value of {', '.join(flagged)}"] if flagged else []
    return ", ".join([name, *doubts])


def leaning(evaluation: Evaluation) -> str:
    """Why a probability leans the other way than the difference beside it; empty where none does."""
    differences = evaluation.comparison.differences if evaluation.comparison is not None else ()
    odd = [f"{d.a} - {d.b}" for d in differences if (d.value > 0) != (d.p > 0.5) and abs(d.p - 0.5) >= SHOWN]
    if not odd:
        return ""
    return (
        f"P(> 0) leans the other way than the value for {', '.join(odd)}: it is of values that are drawn towards those "
        "of all policies, each by as much as it is uncertain"
    )


def robustness(sensitivity: SensitivityResult) -> str:
    """How far the order of the first two rests on exact weights; empty where weights do not give that order."""
    if sensitivity.gamma <= 1:
        return ""
    return (
        f"by weights alone, {sensitivity.a} stays above {sensitivity.b} unless log-probs are wrong by more than "
        f"{sensitivity.nats_per_step:.2g} nats a step (an episode's weight by a factor of {sensitivity.gamma:.3g})"
    )
