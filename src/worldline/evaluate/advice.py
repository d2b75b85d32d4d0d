"""What an evaluation advises: what its comparison rests on, which log would help, how wrong the log-probs may be."""

import math

from worldline.evaluate.result import Evaluation
from worldline.evaluate.result_parts import PolicyResult, SensitivityResult
from worldline.number_text import below
from worldline.ope.diagnostics import LEAST_ESS, LEAST_SUPPORT

SHOWN, EQUAL = 0.0005, 1e-9
"""A probability this far from a half is shown as another; values that differ by less than the second are one."""
LEAST_FACTOR = 1.001
"""The smallest factor that is shown: one nearer to 1 reads as no error at all."""
EXPECTED_ERROR = (
    "Expected error, by which an estimator is recommended, is of its values of these candidates (sampling, and a "
    "model's measured bias); its error on the log's own policies is of other policies, and may be smaller for an "
    "estimator that is less sure of these candidates, or flagged"
)


def what_to_collect(evaluation: Evaluation) -> list[str]:
    """What log would help: for each candidate that this one hardly covers."""
    lines = []
    for policy in evaluation.policies:
        if untried := _untried(policy, policy.label):
            lines.append(f"{untried}: collect episodes of {policy.label} itself, or of a policy near it")
        elif unlike := _unlike(policy, policy.label):
            lines.append(f"{unlike}: collect more episodes of policies near it")
    return lines


def thin_evidence(policy: PolicyResult) -> str:
    """What the log has too little of that is like the policy; empty where it has enough."""
    return _untried(policy, "it") or _unlike(policy, "it")


def _untried(policy: PolicyResult, name: str) -> str:
    support = policy.diagnostics.support if policy.diagnostics is not None else None
    if support is None or support >= LEAST_SUPPORT:
        return ""
    return f"only {below(100 * support, 100 * LEAST_SUPPORT)}% of what {name} would do was ever tried in the log"


def _unlike(policy: PolicyResult, name: str) -> str:
    ess = policy.diagnostics.ess if policy.diagnostics is not None else None
    if ess is None or ess >= LEAST_ESS:
        return ""
    worth = f"only {below(ess, LEAST_ESS, 1)} episodes' worth of the log is like {name}"
    return f"{worth} (at least {LEAST_ESS:g} are needed)"


def not_compared(evaluation: Evaluation) -> str:
    """Who is not compared, and why; empty where all are.

    An interval or a probability of an estimate that is not to be trusted is not to be trusted either: none is given.
    """
    recommended = evaluation.recommended
    if recommended is None:
        return f"who is better, nothing here can tell: {evaluation.meta.no_recommendation}"
    name = recommended.estimator
    flagged = [p.label for p in evaluation.policies if name in p.estimates and p.estimates[name].flag]
    return f"not compared: {', '.join(flagged)}: do not trust their values by {name}" if flagged else ""


def about_probabilities(evaluation: Evaluation) -> str:
    """Why P(> 0) is not what the interval beside it says, or leans the other way; empty below two candidates."""
    comparison = evaluation.comparison
    if comparison is None or len(comparison.p_best) < 2:
        return ""
    differences = comparison.differences
    sided = [d for d in differences if abs(d.value) > EQUAL and abs(d.p - 0.5) >= SHOWN]
    odd = [f"{d.a} - {d.b}" for d in sided if (d.value > 0) != (d.p > 0.5)]
    leaning = f", and leans the other way than the value for {', '.join(odd)}" if odd else ""
    return (
        "P(> 0) is of values that are drawn towards those of the other candidates, each by as much as it is uncertain: "
        f"it may be nearer 0.5 than the interval says{leaning}"
    )


def robustness(sensitivity: SensitivityResult) -> str:
    """How far the order of the first two rests on exact weights; empty where weights do not give that order."""
    if sensitivity.gamma <= 1:
        return ""
    if sensitivity.gamma < LEAST_FACTOR:
        return (
            f"by weights alone, {sensitivity.a} is above {sensitivity.b}, and any error of the log-probs may reverse it"
        )
    return (
        f"by weights alone, {sensitivity.a} stays above {sensitivity.b} unless the logged log-probs are wrong by more "
        f"than {_floored(sensitivity.nats_per_step)} nats a step, and some episode's weight by a factor of more than "
        f"{sensitivity.gamma:.4g}"
    )


def _floored(value: float) -> str:
    """Two digits, never more than the value."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.floor(round(value / unit, 6)) * unit:.2g}"
