"""The answer of an evaluation in words: who is best, by how much, how far that can be trusted, what to collect if not.

It says what the evaluation says and decides nothing: without a recommendation nobody is best.
"""

from collections.abc import Sequence

from worldline.evaluate.advice import what_to_collect
from worldline.evaluate.logged import ON_POLICY
from worldline.evaluate.result import Evaluation, Recommendation
from worldline.evaluate.result_parts import Estimate, PolicyResult, rounding
from worldline.report.blocks import Headline, number

_MOST_LINES = 6


def headline(evaluation: Evaluation) -> Headline:
    """What the page says first."""
    recommended = evaluation.recommended
    lines = list(dict.fromkeys([*evaluation.warnings, *what_to_collect(evaluation)]))
    if recommended is None:
        reason = evaluation.meta.no_recommendation or "the evaluation gives no recommendation"
        return Headline(f"No candidate can be recommended: {reason}.", "doubt", lines[:_MOST_LINES])
    valued = _by_value(evaluation.policies, recommended.estimator)
    best = next((policy for policy in valued if policy.label == recommended.policy), None)
    if best is None:
        text = f"The evaluation recommends {recommended.policy}, of which it gives no value by {recommended.estimator}."
        return Headline(text, "doubt", lines[:_MOST_LINES])
    reasons = _reasons(evaluation, best, recommended)
    text = f"{_standing(best, valued, recommended)} {_trust(evaluation, recommended)}"
    return Headline(text, "doubt" if reasons else "sure", list(dict.fromkeys([*reasons, *lines]))[:_MOST_LINES])


def _standing(best: PolicyResult, valued: Sequence[PolicyResult], recommended: Recommendation) -> str:
    """Where the best stands beside the next."""
    name = recommended.estimator
    own = best.estimates[name]
    span = f"{number(own.value)} {_span(own)}".strip()
    others = [policy for policy in valued if policy is not best]
    if not others:
        return f"{best.label} is worth {span} by {name}; there is no other candidate."
    rivals = [policy for policy in others if own.flag or not policy.estimates[name].flag]
    if not rivals:
        return f"{best.label} is worth {span} by {name}, whose values of all others are not to be trusted."
    second = rivals[0].estimates[name]
    gap = f"{number((own.value or 0.0) - (second.value or 0.0))} above {rivals[0].label}"
    if own.doubt:
        return f"{best.label} ranks first by {name}: {span}, {gap}, but there is a reason to doubt the number."
    slack = rounding((own, second))
    if abs((own.value or 0.0) - (second.value or 0.0)) <= slack:
        return f"{best.label} and {rivals[0].label} have the same value by {name}: {span}; nothing tells them apart."
    if own.low is not None and second.high is not None and own.low > second.high + slack:
        return f"{best.label} is best by {name}: {span}, {gap}; their intervals do not overlap."
    if own.low is None or second.high is None:
        return f"{best.label} ranks first by {name}: {span}, {gap}; there is no interval to say how surely."
    return f"{best.label} ranks first by {name}: {span}, {gap}, but their intervals overlap: it may not be the best."


def _trust(evaluation: Evaluation, recommended: Recommendation) -> str:
    if recommended.estimator == ON_POLICY:
        return "Every candidate is in the log: these are the means of their own episodes."
    record = evaluation.record(recommended.estimator)
    if record is None or record.mae is None:
        return "The error of this estimator on this log is not measured."
    trials = f"{record.trials} trial{'s' if record.trials != 1 else ''}"
    hits, tried = evaluation.covered(recommended.estimator)
    trials += "" if hits == tried else f", {hits} of {tried} intervals hold the value"
    return (
        f"On the log's own policies{_own_means(evaluation)}, {recommended.estimator} was off by "
        f"{number(record.mae)} on average ({trials})."
    )


def _own_means(evaluation: Evaluation) -> str:
    """What stands for the values of the log's own policies."""
    episodes = [trial.truth_episodes for trial in evaluation.meta.certificate.trials if trial.truth_episodes]
    if not episodes:
        return ""
    span = f"{min(episodes):,}" + (f" to {max(episodes):,}" if min(episodes) < max(episodes) else "")
    return f", known by their own means of {span} episodes"


def _reasons(evaluation: Evaluation, best: PolicyResult, recommended: Recommendation) -> list[str]:
    """Why the number may be wrong, as far as the file tells."""
    own = best.estimates[recommended.estimator]
    reasons = [f"{best.label}: {own.doubt}"] if own.doubt else []
    if own.low is not None and own.low == own.high:
        alike = "every logged episode it rests on ended alike"
        reasons.append(
            f"the interval of {best.label} has no width: {alike}, so the log cannot tell what would go wrong"
        )
    if len(evaluation.meta.loggers) == 1 and recommended.estimator != ON_POLICY:
        reasons.append(
            f"one policy made the log ({evaluation.meta.loggers[0]}): no estimator could be tried on a policy that "
            "differs from it"
        )
    return [*reasons, *(f"fit warned: {doubt}" for doubt in recommended.doubts)]


def _by_value(policies: Sequence[PolicyResult], estimator: str) -> list[PolicyResult]:
    valued = [p for p in policies if estimator in p.estimates and p.estimates[estimator].value is not None]
    return sorted(valued, key=lambda policy: -(policy.estimates[estimator].value or 0.0))


def _span(estimate: Estimate) -> str:
    return "" if estimate.low is None or estimate.high is None else f"[{number(estimate.low)}, {number(estimate.high)}]"
