"""A comparison as tables for people, 80 columns wide."""

from pathlib import Path

from rich.console import RenderableType
from rich.table import Table

from worldline.comparison.result import LogComparison, Pair, PairedDifferenceResult
from worldline.number_text import number, probability, signed

SHOWN = 20
MOST_NAME = 26
MOST_TASK = 50
MOST_HEADER = 12


def views(comparison: LogComparison, out: Path | None = None, shown: int = 8) -> list[RenderableType]:
    """The answer first, then who played what, the pairs, the breakdown, and the tasks to look at.

    `out` is the folder where comparison.json was written, which has what is left off here. A caption is as narrow as
    its table and would break a path.
    """
    rest = "--json, or --out FOLDER" if out is None else "comparison.json"
    parts: list[RenderableType] = [comparison.answer, _policies(comparison, rest)]
    parts.append(_pairs(comparison, rest))
    for pair in comparison.pairs[:3]:
        if pair.groups:
            parts.append(_groups(pair, comparison.by, rest))
        if pair.differing:
            parts.append(_tasks(pair, shown, rest))
    warnings = [*comparison.warnings, *(line for pair in comparison.pairs[:3] for line in pair.warnings)]
    return [*parts, *(f"note: {line}" for line in warnings)]


def _policies(comparison: LogComparison, rest: str) -> Table:
    costs = any(policy.cost is not None for policy in comparison.policies)
    columns = ["policy", "episodes", "tasks", comparison.metric, "interval", "steps", *(["cost"] if costs else [])]
    rows = [
        [
            _cut(policy.policy, MOST_NAME),
            f"{policy.episodes:,}",
            f"{policy.tasks:,}",
            number(policy.value),
            "-" if policy.low is None or policy.high is None else f"[{_short(policy.low)}, {_short(policy.high)}]",
            "-" if policy.steps is None else f"{policy.steps:.1f}",
            *(["-" if policy.cost is None else f"{policy.cost:.3g}"] if costs else []),
        ]
        for policy in comparison.policies[:SHOWN]
    ]
    return _drawn("policies of the log", columns, rows, len(comparison.policies), rest)


def _pairs(comparison: LogComparison, rest: str) -> Table:
    columns = ["against " + _cut(comparison.baseline, 16), "tasks", "difference", "P(better)", "won/tied/lost", "steps"]
    rows = [
        [
            _cut(pair.policy, MOST_NAME),
            str(pair.tasks),
            f"{signed(pair.difference.value)}\n{pair.difference.span}",
            "-" if pair.difference.p_better is None else probability(pair.difference.p_better),
            f"{pair.wins}/{pair.ties}/{pair.losses}" if pair.paired else "unpaired",
            "-" if pair.steps is None else f"{pair.steps.value:+.1f}",
        ]
        for pair in comparison.pairs[:SHOWN]
    ]
    return _drawn(f"{comparison.metric}, paired by task", columns, rows, len(comparison.pairs), rest)


def _groups(pair: Pair, by: str, rest: str) -> Table:
    columns = [_cut(by, 18), "tasks", *_names(pair), "difference"]
    rows = [
        [
            _cut(group.group, MOST_NAME),
            str(group.tasks),
            number(group.value),
            number(group.baseline_value),
            f"{signed(group.difference.value)} {_span(group.difference)}",
        ]
        for group in pair.groups[:SHOWN]
    ]
    title = f"{_cut(pair.policy, 24)} against {_cut(pair.baseline, 24)}, by {by}"
    return _drawn(title, columns, rows, len(pair.groups), rest)


def _tasks(pair: Pair, shown: int, rest: str) -> Table:
    columns = ["task", *_names(pair)]
    rows = [
        [_cut(task.task_id, MOST_TASK), _short(task.value), _short(task.baseline_value)]
        for task in pair.differing[:shown]
    ]
    title = f"where {_cut(pair.policy, 24)} and {_cut(pair.baseline, 24)} differ"
    return _drawn(title, columns, rows, len(pair.differing), rest)


def _drawn(title: str, columns: list[str], rows: list[list[str]], of: int, rest: str) -> Table:
    caption = f"{of - len(rows):,} more: {rest}" if of > len(rows) else None
    drawn = Table(title=title, title_justify="left", caption=caption, caption_justify="left", padding=(0, 0))
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        drawn.add_row(*row)
    return drawn


def _names(pair: Pair) -> tuple[str, str]:
    """The two columns of values, by the policies' names where short names still tell them apart."""
    names = (_cut(pair.policy, MOST_HEADER), _cut(pair.baseline, MOST_HEADER))
    return names if names[0] != names[1] else ("policy", "baseline")


def _span(outcome: PairedDifferenceResult) -> str:
    if outcome.low is None or outcome.high is None:
        return ""
    return f"[{_short(outcome.low, '+')}, {_short(outcome.high, '+')}]"


def _short(value: float, sign: str = "") -> str:
    """Two decimals, or two digits of what is too small or too large for these."""
    return f"{value:{sign}.2f}" if 1e-2 <= abs(value) < 1e4 or value == 0 else f"{value:{sign}.2g}"


def _cut(text: str, most: int) -> str:
    """The beginning and the end: versions of one agent differ there."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 + 1 - most :]}"
