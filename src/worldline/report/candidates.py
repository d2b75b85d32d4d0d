"""Who is better, and how sure: the comparison of an evaluation, its breakdown by group, as tables."""

from worldline.evaluate.advice import about_probabilities, not_compared, robustness
from worldline.evaluate.result import Evaluation
from worldline.evaluate.result_parts import DifferenceResult
from worldline.number_text import probability
from worldline.report.blocks import Block, Cell, Notes, Remarks, Table, figure


def comparison(evaluation: Evaluation) -> list[Block]:
    """The answer that an evaluation gives, first of all; no table of differences where it compares nobody."""
    groups: list[Block] = [_breakdown(evaluation)] if evaluation.breakdown is not None else []
    compared = evaluation.comparison
    missing = not_compared(evaluation)
    if compared is None or not compared.differences:
        return [Remarks("Who is better", [missing]), *groups] if missing else groups
    sure = f"{evaluation.meta.confidence:.0%}"
    rows = [
        [Cell(f"{d.a} − {d.b}"), figure(d.value, d.low, d.high), figure(d.at_least), _chance(d.p)]
        for d in compared.differences
    ]
    columns = ("difference", f"value and {sure} interval", f"at least, with {sure}", "P(> 0)")
    robust = robustness(compared.sensitivity) if compared.sensitivity is not None else ""
    notes = [note for note in (about_probabilities(evaluation), missing, robust) if note]
    caption = f"By {compared.estimator}, on shared resamples of the tasks."
    caption += "".join(f" {note[0].upper()}{note[1:]}." for note in notes)
    blocks: list[Block] = [Table("Who is better", columns, rows, caption)]
    if len(compared.p_best) > 1:
        blocks.append(_candidates(evaluation))
    return [*blocks, *groups]


def _candidates(evaluation: Evaluation) -> Table:
    compared = evaluation.comparison
    assert compared is not None
    winner, rows = compared.winner, []
    for label, p in sorted(compared.p_best.items(), key=lambda item: -item[1]):
        together = compared.simultaneous.get(label)
        picked = winner is not None and winner.policy == label
        rows.append([
            Cell(label, tone="best" if picked else ""),
            _chance(p),
            figure(together.low if together else None),
            figure(together.high if together else None),
            figure(winner.corrected, winner.low, winner.high) if winner is not None and picked else Cell("–"),
        ])  # packed lines read better  # fmt: skip
    columns = ("policy", "P(best)", "simultaneous interval: from", "to", "value, corrected for having been picked")
    caption = "Blue: the highest estimate. Simultaneous intervals: all of them hold at once."
    return Table("The best candidate", columns, rows, caption)


def _breakdown(evaluation: Evaluation) -> Table:
    split = evaluation.breakdown
    assert split is not None
    labels = [policy.label for policy in evaluation.policies]
    rows, notes = [], Notes()
    for row in split.groups:
        estimates = [row.estimates.get(label) for label in labels]
        values = [
            Cell("–")
            if e is None
            else figure(e.value, e.low, e.high, tone="doubt" if e.doubt else "", mark=notes.mark(e.doubt))
            for e in estimates
        ]
        rows.append([Cell(row.group), figure(row.episodes), *values, _difference(row.difference)])
    caption = "Orange: there is a reason for doubt." + (
        f" Chance of groups this different if none differs: {split.p:.2g} (Cochran's Q)." if split.p is not None else ""
    )
    columns = (split.column, "episodes", *labels, "first − second")
    return Table(f"By {split.column}", columns, rows, caption, notes=notes.lines)


def _difference(difference: DifferenceResult | None) -> Cell:
    return Cell("–") if difference is None else figure(difference.value, difference.low, difference.high)


def _chance(p: float) -> Cell:
    return Cell(probability(p), value=p)
