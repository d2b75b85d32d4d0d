"""An evaluation as tables for people: the log, what the estimators are worth on it, the estimates, the agreement."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table

from worldline.evaluate.advice import EXPECTED_ERROR, about_probabilities, not_compared, robustness, what_to_collect
from worldline.evaluate.result import Evaluation
from worldline.evaluate.result_parts import Estimate, TrialResult
from worldline.number_text import number, probability, signed

MEASURES = ("spearman", "low", "high", "regret@1", "mae", "coverage")
"""What fits 80 columns; evaluation.json and the report have the other measures of agreement, too."""
ACROSS = 4
"""Policies in a table: more would not fit on a line."""
DIAGNOSTICS = {
    "effective episodes": "ess",
    "largest weight's share": "largest_share",
    "mean weight": "mean_weight",
    "importance-weight tail index k": "pareto_k",
    "overlap": "overlap",
    "never taken": "never",
    "in support": "support",
}
"""Fields of `Diagnostics` by what they are called."""


def views(evaluation: Evaluation) -> tuple[RenderableType, ...]:
    """The answer first; then, in the order of trust, diagnostics before any estimate; the recommendation last."""
    parts: list[RenderableType] = [*_answer(evaluation), *_audit(evaluation)]
    parts += [f"note: {line}" for line in dict.fromkeys([*evaluation.warnings, *what_to_collect(evaluation)])]
    parts += _diagnostics(evaluation)
    if evaluation.meta.null_test:
        parts += [_certificate(evaluation), EXPECTED_ERROR]
    parts += _estimates(evaluation)
    parts += _breakdown(evaluation)
    parts += _doubts(evaluation)
    if evaluation.agreement:
        parts.append(_agreement(evaluation))
    return (*parts, evaluation.answer)


def _answer(evaluation: Evaluation) -> list[RenderableType]:
    """Who is better, and how sure: differences, P(best), the winner's value."""
    comparison, missing = evaluation.comparison, not_compared(evaluation)
    if comparison is None:
        return [missing] if missing else []
    title = f"Who is better, by {comparison.estimator}: differences on shared resamples of the tasks"
    sure = f"{evaluation.meta.confidence:.0%}"
    table = _table(title, ("difference", "value", f"{sure} interval", f"at least ({sure})", "P(> 0)"))
    for each in comparison.differences:
        span = "-" if each.low is None or each.high is None else f"[{signed(each.low)}, {signed(each.high)}]"
        limit = "-" if each.at_least is None else signed(each.at_least)
        table.add_row(f"{each.a} - {each.b}", signed(each.value), span, limit, probability(each.p))
    parts: list[RenderableType] = [table, about_probabilities(evaluation)] if comparison.differences else []
    parts += [missing] if missing else []
    if len(comparison.p_best) > 1:
        ordered = sorted(comparison.p_best.items(), key=lambda item: -item[1])
        parts.append("P(best): " + ", ".join(f"{label} {probability(p)}" for label, p in ordered))
    if (winner := comparison.winner) is not None and len(comparison.p_best) > 1:
        parts.append(
            f"highest: {winner.policy}, {_number(winner.value)}; corrected for having been picked "
            f"{_number(winner.corrected)} [{_number(winner.low)}, {_number(winner.high)}]"
        )
    if (robust := comparison.sensitivity) is not None:
        parts.append(robustness(robust) or f"by weights alone, {robust.a} is not above {robust.b}")
    return parts


def _audit(evaluation: Evaluation) -> list[str]:
    """What was tested of the log-probs, where nothing spoke against them; else the warnings say it."""
    audit = evaluation.audit
    if audit is None or audit.reasons or not audit.probes:
        return []
    return [f"audit: {len(audit.probes)} tests of the log's log-probs, nothing against them"]


def _diagnostics(evaluation: Evaluation) -> list[RenderableType]:
    """Figures down, policies across; one that is in the log has none."""
    meta = evaluation.meta
    title = f"What the log can tell: {meta.episodes:,} episodes, {meta.steps:,} steps, {meta.tasks:,} tasks"
    described = [
        (policy.label, diagnostics)
        for policy in evaluation.policies
        if (diagnostics := policy.diagnostics) is not None
        and any(getattr(diagnostics, field) is not None for field in DIAGNOSTICS.values())
    ]
    tables: list[RenderableType] = []
    for first in range(0, len(described), ACROSS):
        part = described[first : first + ACROSS]
        table = _table(title if first == 0 else "", ("", *(label for label, _ in part)))
        for name, field in DIAGNOSTICS.items():
            cells = [getattr(diagnostics, field) for _, diagnostics in part]
            if any(cell is not None for cell in cells):
                table.add_row(name, *map(_number, cells))
        tables.append(table)
    return tables or [title]


def _certificate(evaluation: Evaluation) -> Table:
    table = _table(
        "How well each estimator values the log's own policies: from their own episodes (null test), from those of "
        "the other half of them (certificate; a world model is fitted on these alone, and the policy acts in it)",
        ("estimator", "null test", "null error", "from others: error", "bias", "coverage", "pairs in order"),
    )
    for name in evaluation.estimators:
        record = evaluation.record(name)
        cells = (record.mae, record.bias, record.coverage, record.pairwise) if record else (None,) * 4
        own = evaluation.null_error(name)
        table.add_row(name, _passed(evaluation.meta.null_test, name), *map(_number, (own, *cells)))
    return table


def _passed(trials: Sequence[TrialResult], name: str) -> str:
    hits = [trial.estimates[name].covers for trial in trials if name in trial.estimates]
    tried = [hit for hit in hits if hit is not None]
    return f"{sum(tried)} of {len(tried)}" if tried else "-"


def _estimates(evaluation: Evaluation) -> list[Table]:
    """Estimators down, policies across, a few at a time so that lines stay readable."""
    share = f"{evaluation.meta.confidence:.0%}"
    tables: list[Table] = []
    for first in range(0, len(evaluation.policies), ACROSS):
        part = evaluation.policies[first : first + ACROSS]
        title = f"Value, {share} interval, rank (*: do not trust, see below)" if first == 0 else ""
        table = _table(title, ("estimator", *(policy.label for policy in part)))
        if any(policy.truth is not None for policy in part):
            table.add_row("truth", *(_number(policy.truth) for policy in part), end_section=True)
        for name in evaluation.estimators:
            table.add_row(name, *(_estimate(policy.estimates[name]) for policy in part))
        tables.append(table)
    return tables


def _estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return "refused*"
    span = "" if estimate.low is None else f" [{_number(estimate.low)}, {_number(estimate.high)}]"
    rank = "" if estimate.rank is None else f" #{estimate.rank}"
    return f"{_number(estimate.value)}{'*' if estimate.flag else ''}{span}{rank}"


def _breakdown(evaluation: Evaluation) -> list[RenderableType]:
    split = evaluation.breakdown
    if split is None:
        return []
    labels = [policy.label for policy in evaluation.policies]
    title = f"By {split.column}, by {split.estimator} (*: do not trust)"
    table = _table(title, (split.column, "episodes", *labels, "difference of the first two"))
    for row in split.groups:
        cells = [_estimate(row.estimates[label]) if label in row.estimates else "-" for label in labels]
        d = row.difference
        span = "" if d is None or d.low is None or d.high is None else f" [{signed(d.low)}, {signed(d.high)}]"
        shown = "-" if d is None else f"{d.a} - {d.b}: {signed(d.value)}{span}"
        table.add_row(row.group, f"{row.episodes:,}", *cells, shown)
    if split.p is None:
        return [table]
    differ = "the difference is not the same in all groups" if split.p < 0.05 else "no group stands out"
    return [table, f"by {split.column}: {differ} (Cochran's Q, p = {split.p:.2g})"]


def _doubts(evaluation: Evaluation) -> list[str]:
    """One line per candidate and reason, naming the estimators it holds for."""
    estimators: dict[tuple[str, str], list[str]] = {}
    for policy in evaluation.policies:
        for name, estimate in policy.estimates.items():
            if estimate.doubt:
                doubt = estimate.doubt if estimate.refused else f"do not trust: {estimate.doubt}"
                estimators.setdefault((policy.label, doubt), []).append(name)
    return [f"* {label}: {', '.join(names)}: {doubt}" for (label, doubt), names in estimators.items()]


def _agreement(evaluation: Evaluation) -> Table:
    table = _table("Agreement with the truth, trivial predictors included", ("estimator", *MEASURES))
    for name, measured in evaluation.agreement.items():
        keys = (f"spearman_{measure}" if measure in ("low", "high") else measure for measure in MEASURES)
        valued, judged = evaluation.judged(name)
        label = name if valued == judged else f"{name} ({valued} of {judged})"
        table.add_row(label, *(_number(measured[key]) for key in keys))
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else number(value)
