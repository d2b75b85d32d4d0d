"""The section on an evaluation: who ranks where, how sure, and what the estimators are worth, beside the truth.

It shows what the evaluation says and decides nothing: without a recommended estimator there is no ranking.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from worldline.evaluate.advice import EXPECTED_ERROR, thin_evidence
from worldline.evaluate.result import Evaluation, Recommendation, read_evaluation
from worldline.evaluate.result_parts import Estimate, PolicyResult
from worldline.ope.diagnostics import LARGEST_PARETO_K, LEAST_ESS, LEAST_SUPPORT, MEAN_WEIGHT
from worldline.report import plots
from worldline.report.answer import headline
from worldline.report.blocks import (
    Block,
    Cell,
    Facts,
    Figure,
    Notes,
    Remarks,
    Section,
    SettingList,
    Table,
    figure,
    flat,
    number,
)
from worldline.report.candidates import comparison
from worldline.report.plots import Point
from worldline.types import InputError

_NO_ESTIMATE = Estimate(value=None, low=None, high=None, n=0)


def section(path: Path) -> Section:
    evaluation = read_evaluation(path)
    recommended = evaluation.recommended
    best = recommended.estimator if recommended else ""
    ranked = _ranked(evaluation.policies, best)
    blocks: list[Block] = [headline(evaluation), *comparison(evaluation), _facts(evaluation)]
    if recommended:
        blocks.append(_ranking(ranked, recommended))
        if points := _points(ranked, best):
            caption = (
                "Orange: a reason for doubt, which the ranking names. Arrow: the value beside it lies outside the plot."
            )
            blocks.append(Figure("Estimates and intervals", plots.forest(points, best), caption))
    if panels := _against_truth(evaluation):
        star = "★ recommended; " if recommended else ""
        caption = (
            f"On the dashed line the estimate equals the truth. {star}orange: there is a reason for doubt, named under "
            "the next table. Arrow: the estimate beside it lies outside the plot."
        )
        blocks.append(Figure("Estimate against truth", plots.against_truth(panels, best), caption))
    blocks.append(_every_estimator(evaluation, ranked, best))
    if evaluation.agreement:
        blocks.append(_agreement(evaluation, best))
    blocks += _support(evaluation)
    blocks += _sensitivity(evaluation)
    if remarks := [*evaluation.warnings, *_doubts(evaluation)]:
        blocks.append(Remarks("What to know before trusting this", remarks))
    blocks.append(
        SettingList("Settings of the evaluation", flat(evaluation.meta.model_dump(mode="json", exclude=_SHOWN)))
    )
    return Section("evaluation", "Evaluation", str(path), blocks)


_SHOWN = {"null_test", "certificate", "sensitivity", "no_recommendation"}


def plot(path: Path) -> str:
    """The evaluation as one figure: estimates against the truth, or, without a truth, those recommended."""
    evaluation = read_evaluation(path)
    best = evaluation.recommended.estimator if evaluation.recommended else ""
    if panels := _against_truth(evaluation):
        return plots.against_truth(panels, best)
    if points := _points(_ranked(evaluation.policies, best), best):
        return plots.forest(points, best)
    raise InputError(f"{path}: has neither true values nor a recommended estimator to plot: give --out X.html")


def _points(policies: Sequence[PolicyResult], estimator: str) -> list[Point]:
    """The estimates that can be drawn."""
    return [
        Point(policy.label, e.value, e.low, e.high, policy.truth, bool(e.doubt))
        for policy in policies
        if (e := policy.estimates.get(estimator)) and e.value is not None and plots.drawable(e.value)
    ]


def _against_truth(evaluation: Evaluation) -> dict[str, list[Point]]:
    """Per estimator, the estimates of policies that have a truth."""
    with_truth = [policy for policy in evaluation.policies if policy.truth is not None]
    return {name: points for name in evaluation.estimators if (points := _points(with_truth, name))}


def _ranked(policies: Sequence[PolicyResult], estimator: str) -> list[PolicyResult]:
    """Highest value by the estimator first; those without one last, in the order of the file."""

    def key(policy: PolicyResult) -> tuple[bool, float]:
        value = policy.estimates.get(estimator, _NO_ESTIMATE).value
        return value is None, -(value or 0.0)

    return sorted(policies, key=key)


def _facts(evaluation: Evaluation) -> Facts:
    meta, recommended = evaluation.meta, evaluation.recommended
    items = [("recommended policy", "no recommendation", meta.no_recommendation or "the evaluation gives none")]
    if recommended:
        name, best = recommended.estimator, recommended.policy
        estimate = {p.label: p.estimates.get(name) for p in evaluation.policies}.get(best) or _NO_ESTIMATE
        span = f"{number(estimate.value)} [{number(estimate.low)}, {number(estimate.high)}]"
        doubt = f"{span}; doubt: {estimate.doubt}" if estimate.doubt else span
        items = [("recommended policy", best, doubt), ("recommended estimator", name, recommended.reason)]
        agreed = evaluation.agreement.get(name, {})
        if agreed.get("spearman") is not None:
            low, high = agreed.get("spearman_low"), agreed.get("spearman_high")
            span = f"[{number(low)}, {number(high)}]" if low is not None else ""
            items.append(("rank agreement with truth", number(agreed["spearman"]), f"Spearman {span}"))
    if meta.episodes is not None:
        items.append(
            ("logged episodes", f"{meta.episodes:,}", f"{number(meta.tasks)} tasks, {len(meta.loggers)} loggers")
        )
    return Facts(items)


def _ranking(ranked: Sequence[PolicyResult], recommended: Recommendation) -> Table:
    with_truth = any(policy.truth is not None for policy in ranked)
    rows = []
    for place, policy in enumerate(ranked, start=1):
        estimate = policy.estimates.get(recommended.estimator, _NO_ESTIMATE)
        rank = str(estimate.rank or place) if estimate.value is not None else "–"
        row = [Cell(rank), Cell(policy.label), _cell(estimate)]
        if with_truth:
            error = estimate.value - policy.truth if estimate.value is not None and policy.truth is not None else None
            row += [figure(policy.truth), figure(error)]
        rows.append([*row, _doubt(policy, recommended.estimator, estimate)])
    truth = ("truth", "error") if with_truth else ()
    columns = ("#", "policy", recommended.estimator, *truth, "reason for doubt")
    return Table("Ranking", columns, rows, f"By {recommended.estimator}: {recommended.reason}.")


def _doubt(policy: PolicyResult, estimator: str, estimate: Estimate) -> Cell:
    """Why not to trust the estimate; where nothing speaks against it, still how little of the log is like it."""
    if estimate.doubt:
        return Cell(estimate.doubt, tone="doubt")
    thin = thin_evidence(policy)
    return Cell(f"none against {estimator}, though {thin}" if thin else "none", tone="faint")


def _cell(estimate: Estimate, notes: Notes | None = None) -> Cell:
    mark = notes.mark(estimate.doubt) if notes else ""
    if estimate.value is None:
        return Cell("refused", tone="faint", mark=mark)
    return figure(estimate.value, estimate.low, estimate.high, tone="doubt" if estimate.doubt else "", mark=mark)


def _every_estimator(evaluation: Evaluation, policies: Sequence[PolicyResult], best: str) -> Table:
    meta = evaluation.meta
    notes = Notes()
    rows: list[list[Cell]] = []
    if any(policy.truth is not None for policy in policies):
        rows.append(
            [Cell("truth"), Cell(""), Cell(""), Cell(""), *(figure(policy.truth, tone="best") for policy in policies)]
        )
    for name in evaluation.estimators:
        hits = [trial.estimates[name].covers for trial in meta.null_test if name in trial.estimates]
        tried = [hit for hit in hits if hit is not None]
        record = evaluation.record(name)
        rows.append([
            Cell(name, tone="best" if name == best else ""),
            Cell(f"{sum(tried)} of {len(tried)}" if tried else "–", tone="doubt" if not all(tried) else ""),
            figure(evaluation.null_error(name)),
            figure(record.mae) if record else Cell("–"),
            *(_cell(policy.estimates.get(name, _NO_ESTIMATE), notes) for policy in policies),
        ])  # packed lines read better  # fmt: skip
    predictors = list(policies[0].predictors)
    rows += [
        [Cell(name, "trivial"), Cell("–"), Cell("–"), Cell("–"), *(figure(p.predictors.get(name)) for p in policies)]
        for name in predictors
    ]
    caption = (
        f"Value and {meta.confidence:.0%} interval. Null test: how many loggers' own values lie in the interval, "
        "and the mean error there. Certified error: mean error when each logger is valued from the episodes of the "
        f"others. {EXPECTED_ERROR}. Orange: do not trust; the small number names the reason below."
    )
    columns = ("estimator", "null test", "null error", "certified error", *(policy.label for policy in policies))
    rules = (len(rows) - len(predictors),) if predictors else ()
    return Table("Every estimator", columns, rows, caption, rules, notes.lines)


_MEASURES: dict[str, Callable[[Sequence[float]], float] | None] = {  # which is best
    "spearman": max,
    "p": None,
    "kendall": max,
    "pairwise": max,
    "regret@1": min,
    "mae": min,
    "rmse": min,
}


def _agreement(evaluation: Evaluation, best: str) -> Table:
    measured = evaluation.agreement
    measures = [m for m in (*_MEASURES, "coverage") if any(m in row for row in measured.values())]
    estimators = [name for name in measured if name in evaluation.estimators]
    judged = {name: evaluation.judged(name) for name in measured}
    of_all = [name for name in estimators if judged[name][0] == judged[name][1]]
    tops = {m: top(v) for m in measures if (top := _MEASURES.get(m)) and (v := _values(measured, of_all, m))}
    rows = []
    names = [*estimators, *(name for name in measured if name not in estimators)]
    for name in names:
        valued, many = judged[name]
        notes = ["trivial"] * (name not in estimators) + [f"{valued} of {many} policies"] * (valued < many)
        row = [Cell(name, ", ".join(notes), "best" if name == best else "")]
        for measure in measures:
            value = measured[name].get(measure)
            tone = "best" if name in of_all and value is not None and value == tops.get(measure) else ""
            ends = (measured[name].get(f"{measure}_low"), measured[name].get(f"{measure}_high"))
            row.append(figure(value, *ends, tone=tone))
        rows.append(row)
    caption = (
        "Blue: the best by that measure, of estimators that value all policies. p: chance that a random order agrees "
        "as well."
    )
    columns = ("estimator", *measures)
    return Table(
        "Agreement with the truth",
        columns,
        rows,
        caption,
        rules=(len(estimators),) if len(estimators) < len(names) else (),
    )


def _values(measured: Mapping[str, Mapping[str, float | None]], names: Sequence[str], measure: str) -> list[float]:
    return [value for name in names if (value := measured[name].get(measure)) is not None]


_SUPPORT: dict[str, tuple[str, Callable[[float], bool]]] = {
    "ess": ("effective episodes", lambda v: v < LEAST_ESS),
    "largest_share": ("largest weight's share", lambda v: False),
    "mean_weight": ("mean weight", lambda v: not MEAN_WEIGHT[0] <= v <= MEAN_WEIGHT[1]),
    "pareto_k": ("importance-weight tail index k", lambda v: v > LARGEST_PARETO_K),
    "overlap": ("overlap", lambda v: False),
    "never": ("never taken", lambda v: False),
    "support": ("in support", lambda v: v < LEAST_SUPPORT),
}


def _support(evaluation: Evaluation) -> list[Block]:
    """What the log can say about each candidate, the worrying figures marked."""
    shown = [name for name in _SUPPORT if any(_diagnostic(p, name) is not None for p in evaluation.policies)]
    if not shown:
        return []
    rows = []
    for policy in evaluation.policies:
        row = [Cell(policy.label)]
        for name in shown:
            value = _diagnostic(policy, name)
            row.append(figure(value, tone="doubt" if value is not None and _SUPPORT[name][1](value) else ""))
        rows.append(row)
    caption = (
        f"Orange: out of support or too few episodes to weigh: under {LEAST_ESS:g} effective episodes, mean weight not "
        f"near 1, importance-weight tail index k over {LARGEST_PARETO_K}, or under {LEAST_SUPPORT:.0%} of the policy's "
        "choices seen in the log."
    )
    return [
        Table("What the log can say about each policy", ("policy", *(_SUPPORT[n][0] for n in shown)), rows, caption)
    ]


def _diagnostic(policy: PolicyResult, name: str) -> float | None:
    value: float | None = getattr(policy.diagnostics, name, None)
    return value


def _sensitivity(evaluation: Evaluation) -> list[Block]:
    """A row per guidance setting; `values` are those of the policies, in their order."""
    labels = [policy.label for policy in evaluation.policies]
    rows = [dict(row) for row in evaluation.meta.sensitivity or ()]
    for row in rows:
        if isinstance(values := row.get("values"), list) and len(values) == len(labels):
            row["values"] = dict(zip(labels, values, strict=True))
    flattened = [{name.removeprefix("values."): value for name, value in flat(row)} for row in rows]
    columns = list(dict.fromkeys(name for row in flattened for name in row))
    cells = [[_setting(row.get(column, "–")) for column in columns] for row in flattened]
    caption = (
        "The ranking imagined again with other guidance weights: w, and alpha where every policy reads the imagined "
        "world as soft tokens (else there is no gradient to guide by)."
    )
    return [Table("Sensitivity of the ranking", columns, cells, caption)] if cells else []


def _setting(text: str) -> Cell:
    try:
        return figure(float(text))
    except ValueError:
        return Cell(text)


def _doubts(evaluation: Evaluation) -> list[str]:
    """One line per policy and reason, naming the estimators it holds for."""
    estimators: dict[tuple[str, str], list[str]] = {}
    for policy in evaluation.policies:
        for name, estimate in policy.estimates.items():
            if estimate.doubt:
                estimators.setdefault((policy.label, estimate.doubt), []).append(name)
    return [f"{label}: {', '.join(names)}: {reason}" for (label, reason), names in estimators.items()]
