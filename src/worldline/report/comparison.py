"""The section on a comparison of logged policies: the answer in words, the pairs, the breakdown, the tasks to read."""

from collections.abc import Sequence
from pathlib import Path

from worldline.comparison.result import (
    LogComparison,
    Pair,
    PairedDifferenceResult,
    read_comparison,
    sentence,
)
from worldline.number_text import probability
from worldline.report import plots
from worldline.report.blocks import Block, Cell, Facts, Figure, Headline, Remarks, Section, Table, figure
from worldline.report.plots import Point

MOST_ROWS = 40


def section(path: Path) -> Section:
    comparison = read_comparison(path)
    first = comparison.pairs[0]
    answer = sentence(first, comparison.metric, comparison.confidence)
    doubtful = first.verdict == "unclear" or not first.paired
    blocks: list[Block] = [
        Headline(answer, "doubt" if doubtful else "sure", first.warnings),
        _facts(comparison),
        _policies(comparison),
        _pairs(comparison),
    ]
    if len(comparison.pairs) > 1:
        points = [_point(pair.policy, pair.difference) for pair in comparison.pairs[:MOST_ROWS]]
        caption = f"Difference from {comparison.baseline}. Orange: the interval contains 0."
        blocks.append(Figure("Differences and intervals", plots.forest(points, comparison.metric), caption))
    for pair in comparison.pairs[:3]:
        if pair.groups:
            blocks.append(_groups(pair, comparison.by))
        if pair.differing:
            blocks.append(_tasks(pair))
    remarks = [*comparison.warnings, *(line for pair in comparison.pairs[1:] for line in pair.warnings)]
    if remarks:
        blocks.append(Remarks("What to know before trusting this", list(dict.fromkeys(remarks))[:MOST_ROWS]))
    return Section("comparison", "Comparison", str(path), blocks)


def _facts(comparison: LogComparison) -> Facts:
    return Facts([
        ("measured by", comparison.metric, f"{comparison.confidence:.0%} intervals, tasks as units"),
        ("baseline", comparison.baseline, ""),
        ("episodes", f"{comparison.episodes:,}", f"{len(comparison.policies)} policies"),
    ])  # packed lines read better  # fmt: skip


def _policies(comparison: LogComparison) -> Table:
    rows = [
        [
            Cell(policy.policy),
            figure(policy.episodes),
            figure(policy.tasks),
            figure(policy.value, policy.low, policy.high),
            figure(policy.steps),
            figure(policy.cost),
            Cell(f"{policy.unknown} episodes do not say how they ended" if policy.unknown else "", tone="doubt"),
        ]
        for policy in comparison.policies[:MOST_ROWS]
    ]
    columns = ("policy", "episodes", "tasks", comparison.metric, "steps per episode", "cost", "note")
    return Table("Policies of the log", columns, rows, _more(len(comparison.policies), MOST_ROWS))


def _pairs(comparison: LogComparison) -> Table:
    rows = []
    for pair in comparison.pairs[:MOST_ROWS]:
        tone = "doubt" if pair.verdict == "unclear" else "best"
        rows.append([
            Cell(pair.policy),
            Cell(pair.verdict, tone=tone),
            _difference(pair.difference, tone),
            Cell("–" if pair.difference.p_better is None else probability(pair.difference.p_better)),
            Cell(f"{pair.wins} / {pair.ties} / {pair.losses}" if pair.paired else "not paired"),
            figure(pair.tasks),
            _difference(pair.steps, "") if pair.steps else Cell("–"),
            _difference(pair.cost, "") if pair.cost else Cell("–"),
        ])  # packed lines read better  # fmt: skip
    verdict = f"than {comparison.baseline}"
    columns = (
        "policy",
        verdict,
        "difference",
        "P(better)",
        "won / tied / lost",
        "tasks both played",
        "more steps",
        "more cost",
    )
    return Table("Paired by task", columns, rows, _more(len(comparison.pairs), MOST_ROWS))


def _groups(pair: Pair, by: str) -> Table:
    rows = [
        [
            Cell(group.group),
            figure(group.tasks),
            figure(group.value),
            figure(group.baseline_value),
            _difference(group.difference, ""),
        ]
        for group in pair.groups[:MOST_ROWS]
    ]
    columns = (by, "tasks", pair.policy, pair.baseline, "difference")
    return Table(f"{pair.policy} against {pair.baseline}, by {by}", columns, rows, _more(len(pair.groups), MOST_ROWS))


def _tasks(pair: Pair) -> Table:
    rows = [
        [
            Cell(task.task_id),
            figure(task.value),
            figure(task.baseline_value),
            Cell(_names(task.episodes)),
            Cell(_names(task.baseline_episodes)),
        ]
        for task in pair.differing[:MOST_ROWS]
    ]
    columns = ("task", pair.policy, pair.baseline, f"episodes of {pair.policy}", f"episodes of {pair.baseline}")
    title = f"Where {pair.policy} and {pair.baseline} differ"
    return Table(title, columns, rows, _more(len(pair.differing), MOST_ROWS))


def _difference(outcome: PairedDifferenceResult, tone: str) -> Cell:
    return Cell(f"{outcome.value:+.3f}", outcome.span, tone, value=outcome.value)


def _point(label: str, outcome: PairedDifferenceResult) -> Point:
    unclear = outcome.low is None or outcome.high is None or outcome.low <= 0 <= outcome.high
    return Point(label, outcome.value, outcome.low, outcome.high, doubtful=unclear)


def _names(ids: Sequence[str]) -> str:
    return ids[0] + (f" and {len(ids) - 1} more" if len(ids) > 1 else "")


def _more(count: int, shown: int) -> str:
    return f"{count - shown:,} more are in comparison.json." if count > shown else ""
