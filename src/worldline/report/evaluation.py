"""The section on an evaluation: who ranks where, how sure, and what the estimators are worth, beside the truth."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from worldline.ope.diagnostics import LARGEST_PARETO_K, LEAST_ESS, LEAST_SUPPORT, MEAN_WEIGHT
from worldline.report import plots
from worldline.report.blocks import Block, Cell, Facts, Figure, Remarks, Section, Settings, Table, figure, flat, number
from worldline.report.evaluation_file import Candidate, EvaluationFile, Said, read_evaluation
from worldline.report.source import read_json


def section(path: Path) -> Section:
    evaluation = read_evaluation(path)
    best, reason = evaluation.recommended()
    ranked = _ranked(evaluation.policies, best)
    blocks: list[Block] = [_facts(evaluation, best, reason, ranked), _ranking(ranked, best, reason)]
    if evaluation.points(best):
        caption = "Orange: a reason for doubt is known. An arrow: beyond the frame."
        points = [point for policy in ranked if (point := policy.point(best)) is not None]
        blocks.append(Figure("Estimates and intervals", plots.forest(points, best), caption))
    if panels := against_truth(evaluation):
        caption = "On the dashed line an estimate is right. ★ recommended; orange: a reason for doubt is known."
        blocks.append(Figure("Estimate against truth", plots.against_truth(panels, best), caption))
    blocks.append(_every_estimator(evaluation, ranked, best))
    if evaluation.agreement:
        blocks.append(_agreement(evaluation, best))
    blocks += _support(evaluation)
    blocks += _sensitivity(evaluation.meta.sensitivity, [policy.label for policy in evaluation.policies])
    if remarks := [*evaluation.meta.notes, *_doubts(evaluation)]:
        blocks.append(Remarks("What to know before trusting this", remarks))
    plain = {k: v for k, v in read_json(path).get("meta", {}).items() if not isinstance(v, dict) and k not in _SHOWN}
    blocks.append(Settings("Settings of the evaluation", flat(plain)))
    return Section("evaluation", "Evaluation", str(path), blocks)


_SHOWN = ("notes", "null_test", "certificate", "recommended", "sensitivity")


def against_truth(evaluation: EvaluationFile) -> dict[str, list[plots.Point]]:
    """Per estimator, the estimates of policies whose truth is known."""
    found = {n: [p for p in evaluation.points(n) if p.truth is not None] for n in evaluation.estimators}
    return {name: points for name, points in found.items() if points}


def _ranked(policies: Sequence[Candidate], best: str) -> list[Candidate]:
    """Highest value first; those without one last."""
    value = {id(p): said.value for p in policies if (said := p.estimates.get(best)) and said.value is not None}
    return sorted(policies, key=lambda p: (id(p) not in value, -value.get(id(p), 0.0)))


def _facts(evaluation: EvaluationFile, best: str, reason: str, ranked: Sequence[Candidate]) -> Facts:
    top, meta = ranked[0], evaluation.meta
    said = top.estimates.get(best, Said())
    span = f"{number(said.value)} [{number(said.low)}, {number(said.high)}]"
    items = [("best policy", top.label, span), ("recommended estimator", best, reason)]
    agreed = evaluation.agreement.get(best, {})
    if agreed.get("spearman") is not None:
        low, high = agreed.get("spearman_low"), agreed.get("spearman_high")
        span = f"[{number(low)}, {number(high)}]" if low is not None else ""
        items.append(("rank agreement with truth", number(agreed["spearman"]), f"Spearman {span}"))
    if meta.episodes is not None:
        items.append(
            ("logged episodes", f"{meta.episodes:,}", f"{number(meta.tasks)} tasks, {len(meta.loggers)} loggers")
        )
    return Facts(items)


def _ranking(ranked: Sequence[Candidate], best: str, reason: str) -> Table:
    known = any(policy.truth is not None for policy in ranked)
    rows = []
    for place, policy in enumerate(ranked, start=1):
        said = policy.estimates.get(best, Said())
        row = [Cell(str(said.rank or place) if said.value is not None else "–"), Cell(policy.label), _estimate(said)]
        if known:
            error = said.value - policy.truth if said.value is not None and policy.truth is not None else None
            row += [figure(policy.truth), figure(error)]
        rows.append([*row, Cell(said.doubt or "none known", tone="doubt" if said.doubt else "faint")])
    truth = ("truth", "error") if known else ()
    return Table("Ranking", ("#", "policy", f"{best}", *truth, "reason for doubt"), rows, f"By {best}: {reason}.")


def _estimate(said: Said) -> Cell:
    if said.value is None:
        return Cell("refused", tone="faint", why=said.doubt)
    return figure(said.value, said.low, said.high, tone="doubt" if said.doubt else "", why=said.doubt)


def _every_estimator(evaluation: EvaluationFile, policies: Sequence[Candidate], best: str) -> Table:
    meta = evaluation.meta
    rows: list[list[Cell]] = []
    if any(policy.truth is not None for policy in policies):
        rows.append([Cell("truth"), Cell(""), Cell(""), *(figure(policy.truth, tone="best") for policy in policies)])
    for name in evaluation.estimators:
        hits = [trial.estimates[name].covers for trial in meta.null_test if name in trial.estimates]
        tried = [hit for hit in hits if hit is not None]
        record = meta.certificate.record.get(name)
        rows.append([
            Cell(name, tone="best" if name == best else ""),
            Cell(f"{sum(tried)} of {len(tried)}" if tried else "–", tone="doubt" if not all(tried) else ""),
            figure(record.mae) if record else Cell("–"),
            *(_estimate(policy.estimates.get(name, Said())) for policy in policies),
        ])  # fmt: skip
    predictors = list(policies[0].predictors)
    rows += [
        [Cell(name, "trivial"), Cell("–"), Cell("–"), *(figure(p.predictors.get(name)) for p in policies)]
        for name in predictors
    ]
    caption = (
        f"Value and {meta.confidence:.0%} interval. Null test: loggers whose own value lies in the interval. Certified "
        "error: each logger from the episodes of the others. Orange: do not trust (the pointer on it tells why)."
    )
    columns = ("estimator", "null test", "certified error", *(policy.label for policy in policies))
    return Table("Every estimator", columns, rows, caption, rules=(len(rows) - len(predictors),) if predictors else ())


_MEASURES: dict[str, Callable[[Sequence[float]], float] | None] = {  # which is best
    "spearman": max,
    "p": None,
    "kendall": max,
    "pairwise": max,
    "regret@1": min,
    "mae": min,
    "rmse": min,
}


def _agreement(evaluation: EvaluationFile, best: str) -> Table:
    measured = evaluation.agreement
    measures = [m for m in (*_MEASURES, "coverage") if any(m in found for found in measured.values())]
    judged = [name for name in measured if name in evaluation.estimators]
    tops = {m: top(v) for m in measures if (top := _MEASURES.get(m)) and (v := _values(measured, judged, m))}
    rows = []
    names = [*judged, *(name for name in measured if name not in judged)]
    for name in names:
        row = [Cell(name, "" if name in judged else "trivial", "best" if name == best else "")]
        for measure in measures:
            value = measured[name].get(measure)
            tone = "best" if name in judged and value is not None and value == tops.get(measure) else ""
            ends = (measured[name].get(f"{measure}_low"), measured[name].get(f"{measure}_high"))
            row.append(figure(value, *ends, tone=tone))
        rows.append(row)
    caption = "Blue: the best estimator by that measure. p: chance that a random order agrees as well."
    columns = ("estimator", *measures)
    return Table(
        "Agreement with the truth", columns, rows, caption, rules=(len(judged),) if len(judged) < len(names) else ()
    )


def _values(measured: Mapping[str, Mapping[str, float | None]], names: Sequence[str], measure: str) -> list[float]:
    return [value for name in names if (value := measured[name].get(measure)) is not None]


_SUPPORT: dict[str, tuple[str, Callable[[float], bool]]] = {
    "ess": ("effective episodes", lambda v: v < LEAST_ESS),
    "largest_share": ("largest weight's share", lambda v: False),
    "mean_weight": ("mean weight", lambda v: not MEAN_WEIGHT[0] <= v <= MEAN_WEIGHT[1]),
    "pareto_k": ("weight tail k", lambda v: v > LARGEST_PARETO_K),
    "overlap": ("overlap", lambda v: False),
    "never": ("never taken", lambda v: False),
    "support": ("in support", lambda v: v < LEAST_SUPPORT),
}


def _support(evaluation: EvaluationFile) -> list[Block]:
    """What the log can say about each candidate, the worrying figures marked."""
    shown = [name for name in _SUPPORT if any(p.diagnostics.get(name) is not None for p in evaluation.policies)]
    if not shown:
        return []
    rows = []
    for policy in evaluation.policies:
        row = [Cell(policy.label)]
        for name in shown:
            value = policy.diagnostics.get(name)
            row.append(figure(value, tone="doubt" if value is not None and _SUPPORT[name][1](value) else ""))
        rows.append(row)
    caption = (
        f"Orange: out of support or too few episodes to weigh: under {LEAST_ESS:g} effective episodes, mean weight not "
        f"near 1, tail k over {LARGEST_PARETO_K}, or under {LEAST_SUPPORT:.0%} of the policy's choices seen in the log."
    )
    return [
        Table("What the log can say about each policy", ("policy", *(_SUPPORT[n][0] for n in shown)), rows, caption)
    ]


def _sensitivity(told: Any, labels: Sequence[str]) -> list[Block]:
    """A row per setting, as it was told; `values` are those of the policies, in their order."""
    rows = [dict(row) for row in told if isinstance(row, dict)] if isinstance(told, list) else []
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


def _doubts(evaluation: EvaluationFile) -> list[str]:
    """One line per policy and reason, naming the estimators it holds for."""
    found: dict[tuple[str, str], list[str]] = {}
    for policy in evaluation.policies:
        for name, said in policy.estimates.items():
            if said.doubt:
                found.setdefault((policy.label, said.doubt), []).append(name)
    return [f"{label}: {', '.join(names)}: {reason}" for (label, reason), names in found.items()]
