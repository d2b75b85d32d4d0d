"""Values and the difference that matters by group of episodes: where is a candidate better, and is it everywhere?

A group is a family of tasks, a split, or any column of the metadata. Estimators are run anew on the group's episodes;
a world model's imagined values are simply grouped. Groups differ for sure where Cochran's Q says so.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from worldline.evaluate.judgement import IntervalSettings, Judged, judged
from worldline.evaluate.result_parts import Breakdown, DifferenceResult, Estimate, GroupResult
from worldline.ope.bounds import PROVEN
from worldline.ope.comparison import error_of_difference
from worldline.ope.estimation import ESTIMATORS, Doubt, Estimator, EstimatorInput
from worldline.ope.intervals import Interval, Range, differences_of, interval, two_outcomes, widened, within
from worldline.ope.log import Episodes
from worldline.ope.names import Coded

FEWEST_EPISODES = 5
MOST_GROUPS = 50


def breakdown(
    column: str,
    groups: Coded,
    estimator: str,
    inputs: Mapping[str, EstimatorInput],
    judgements: Mapping[str, Judged],
    settings: IntervalSettings,
    reasons: Sequence[str] = (),
    own_tables: Mapping[str, Mapping[str, Estimator]] | None = None,
    errors: Mapping[str, Sequence[float]] | None = None,
) -> Breakdown:
    """`inputs` and `judgements` are by candidate, and so are `own_tables`: estimators in the place of the usual ones.

    The largest groups, in the order of their names. What a fitted model errs by is measured in each group, or by
    `errors` (see `estimated`). A world model is that of the whole log, and may err in each group by what it may err by
    there: the errors of its groups have a part in common, so that it is found to differ less often than stated.
    """
    sizes = np.bincount(groups.codes, minlength=len(groups.names))
    largest = np.argsort(-sizes, kind="stable")[:MOST_GROUPS]
    shown = [int(code) for code in sorted(largest) if sizes[code] >= FEWEST_EPISODES]
    first, second = _leaders(judgements, estimator)
    tables = own_tables or {}
    rows = [
        _group(groups, code, estimator, inputs, judgements, settings, reasons, (first, second), tables, errors)
        for code in shown
    ]
    p = heterogeneity(rows, settings.confidence)
    log, gamma = next((evidence.log, evidence.gamma) for evidence in inputs.values())
    ends = two_outcomes(log.returns(gamma)) if settings.method not in PROVEN else None
    return Breakdown(column=column, estimator=estimator, groups=tuple(ended_row(row, ends) for row in rows), p=p)


def ended_row(row: GroupResult, ends: Range | None) -> GroupResult:
    """The row, its intervals without what no policy of the log can be worth."""

    def limits(of: Estimate | DifferenceResult, between: Range | None) -> dict[str, float | None]:
        ended = within(Interval(of.value or 0.0, of.low, of.high, 0), between)
        return {"low": ended.low, "high": ended.high}

    estimates = {label: each.model_copy(update=limits(each, ends)) for label, each in row.estimates.items()}
    difference = row.difference
    if difference is not None:
        difference = difference.model_copy(update=limits(difference, differences_of(ends)))
    return row.model_copy(update={"estimates": estimates, "difference": difference})


def _leaders(judgements: Mapping[str, Judged], estimator: str) -> tuple[str, str | None]:
    """The candidate of the highest value, and the next."""
    values = {label: judgement.estimates[estimator].value for label, judgement in judgements.items()}
    ordered = sorted(values, key=lambda label: -np.inf if values[label] is None else -float(values[label] or 0.0))
    return ordered[0], ordered[1] if len(ordered) > 1 else None


def _group(
    groups: Coded,
    code: int,
    estimator: str,
    inputs: Mapping[str, EstimatorInput],
    judgements: Mapping[str, Judged],
    settings: IntervalSettings,
    reasons: Sequence[str],
    leaders: tuple[str, str | None],
    own_tables: Mapping[str, Mapping[str, Estimator]],
    errors: Mapping[str, Sequence[float]] | None,
) -> GroupResult:
    rows = np.flatnonzero(groups.codes == code)
    values: dict[str, Episodes] = {}
    doubts: dict[str, Doubt] = {}
    estimates: dict[str, Estimate] = {}
    for label, evidence in inputs.items():
        table = {**ESTIMATORS, **own_tables.get(label, {})}
        if estimator not in table:
            whole = judgements[label].values.values.get(estimator)
            if whole is None:
                continue
            table = {estimator: _valued(whole[rows], judgements[label].values.doubts.get(estimator, Doubt()))}
        judgement = judged(evidence.take(rows), [estimator], table, settings, reasons, errors)
        estimates[label] = judgement.estimates[estimator]
        if estimator in judgement.values.values:
            values[label] = judgement.values.values[estimator]
            doubts[label] = judgement.values.doubts.get(estimator, Doubt())
    first, second = leaders
    difference = None
    if second is not None and first in values and second in values:
        log = inputs[first].log.take(rows)
        row = interval(values[first] - values[second], log.tasks, "bootstrap", settings.confidence, settings.replicates)
        error = error_of_difference(values[first], values[second], doubts[first].error, doubts[second].error)
        row = widened(row, error, settings.confidence)
        above = _above(row.value, row.low, row.high, settings.confidence)
        difference = DifferenceResult(a=first, b=second, value=row.value, low=row.low, high=row.high, p=above)
    return GroupResult(group=groups.names[code], episodes=len(rows), estimates=estimates, difference=difference)


def _valued(values: Episodes, doubt: Doubt) -> Estimator:
    """What gives these values of the episodes."""
    return Estimator(lambda log, gamma: values, doubt=lambda: doubt)


def _error(low: float | None, high: float | None, confidence: float) -> float:
    if low is None or high is None:
        return np.inf
    return (high - low) / (2 * float(special.ndtri((1 + confidence) / 2)))


def _above(value: float, low: float | None, high: float | None, confidence: float) -> float:
    error = _error(low, high, confidence)
    return 0.5 if not 0 < error < np.inf else float(special.ndtr(value / error))


def heterogeneity(rows: Sequence[GroupResult], confidence: float) -> float | None:
    """p of Cochran's Q: the weighted squares of the groups' differences around their mean, against chi-squared."""
    pairs = [
        (d.value, error)
        for row in rows
        if (d := row.difference) is not None and 0 < (error := _error(d.low, d.high, confidence)) < np.inf
    ]
    if len(pairs) < 2:
        return None
    values, errors = np.array(pairs).T
    weights = 1 / errors**2
    centre = float(weights @ values / weights.sum())
    return float(special.chdtrc(len(pairs) - 1, float(weights @ (values - centre) ** 2)))
