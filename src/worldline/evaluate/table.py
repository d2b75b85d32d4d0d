"""An evaluation as tables for people: the log, what the estimators are worth on it, the estimates, the agreement."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table

from worldline.evaluate.evaluation import Evaluation
from worldline.evaluate.result import Estimate
from worldline.ope.certificate import Trial

MEASURES = ("spearman", "low", "high", "p", "kendall", "pairwise", "regret@1", "mae", "rmse", "coverage")
ACROSS = 4


def views(evaluation: Evaluation) -> tuple[RenderableType, ...]:
    """In the order of trust: diagnostics before any estimate."""
    parts: list[RenderableType] = [*(f"note: {note}" for note in evaluation.notes), _diagnostics(evaluation)]
    if evaluation.null:
        parts.append(_certificate(evaluation))
    parts += _estimates(evaluation)
    parts += _doubts(evaluation)
    if evaluation.agreement:
        parts.append(_agreement(evaluation))
    return tuple(parts)


def _diagnostics(evaluation: Evaluation) -> Table:
    meta = evaluation.meta
    title = f"What the log says: {meta['episodes']:,} episodes, {meta['steps']:,} steps, {meta['tasks']:,} tasks"
    columns = ("policy", "effective episodes", "largest share", "mean weight", "tail k", "overlap", "never", "support")
    table = _table(title, columns)
    for judged in evaluation.policies:
        d = judged.diagnostics
        cells = (d.ess, d.largest_share, d.mean_weight, d.pareto_k, d.overlap, d.never, d.support)
        table.add_row(judged.candidate.label, *map(_number, cells))
    return table


def _certificate(evaluation: Evaluation) -> Table:
    table = _table(
        "What the estimators are worth on this log: its own policies, from their own episodes and from others'",
        ("estimator", "null test", "from others: error", "bias", "coverage", "pairs in order"),
    )
    for name in evaluation.meta["estimators"]:
        found = evaluation.record(name)
        cells = (found.mae, found.bias, found.coverage, found.pairwise) if found else (None,) * 4
        table.add_row(name, _passed(evaluation.null, name), *map(_number, cells))
    return table


def _passed(trials: Sequence[Trial], name: str) -> str:
    hits = [trial.covers(name) for trial in trials if name in trial.estimates]
    tried = [hit for hit in hits if hit is not None]
    return f"{sum(tried)} of {len(tried)}" if tried else "-"


def _estimates(evaluation: Evaluation) -> list[Table]:
    """Estimators down, policies across, a few at a time so that lines stay readable."""
    share = f"{evaluation.meta['confidence']:.0%}"
    tables: list[Table] = []
    for first in range(0, len(evaluation.policies), ACROSS):
        part = evaluation.policies[first : first + ACROSS]
        title = f"Value, {share} interval, rank (*: do not trust, see below)" if first == 0 else ""
        table = _table(title, ("estimator", *(judged.candidate.label for judged in part)))
        if any(judged.truth is not None for judged in part):
            table.add_row("truth", *(_number(judged.truth) for judged in part), end_section=True)
        for name in evaluation.meta["estimators"]:
            table.add_row(name, *(_estimate(judged.estimates[name]) for judged in part))
        tables.append(table)
    return tables


def _estimate(found: Estimate) -> str:
    if found.value is None:
        return "refused*"
    span = "" if found.low is None else f" [{_number(found.low)}, {_number(found.high)}]"
    return f"{_number(found.value)}{'*' if found.flag else ''}{span} #{found.rank}"


def _doubts(evaluation: Evaluation) -> list[str]:
    """One line per candidate and reason, naming the estimators it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for judged in evaluation.policies:
        for name, estimate in judged.estimates.items():
            if estimate.refused:
                found.setdefault((judged.candidate.label, f"refused: {estimate.refused}"), []).append(name)
            elif estimate.flag:
                found.setdefault((judged.candidate.label, f"do not trust: {estimate.flag}"), []).append(name)
    return [f"* {label}: {', '.join(names)}: {reason}" for (label, reason), names in found.items()]


def _agreement(evaluation: Evaluation) -> Table:
    table = _table("Agreement with the truth, trivial predictors included", ("estimator", *MEASURES))
    for name, measured in evaluation.agreement.items():
        keys = (f"spearman_{measure}" if measure in ("low", "high") else measure for measure in MEASURES)
        table.add_row(name, *(_number(measured[key]) for key in keys))
    return table


def _table(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.2g}"
