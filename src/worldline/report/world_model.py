"""The section on a world model: losses per member and epoch, held-out figures, and how errors grow over the horizon."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from worldline.report import plots
from worldline.report.blocks import (
    Block,
    Cell,
    Facts,
    Figure,
    Remarks,
    Section,
    SettingList,
    Table,
    figure,
    flat,
    number,
)
from worldline.report.plots import Panel
from worldline.report.source import read_metrics, read_optional
from worldline.report.training import Rows, curve, is_number
from worldline.types import InputError

_HELD_OUT = "held_out_"
_NO_LOSS = {"member", "epoch", "of", "seconds", "best"}
LABELS = {
    "steps": "episodes that reach the step",
    "recall_1": "retrieval@1",
    "recall_10": "retrieval@10",
    "text_match": "same text",
    "hazard_auc": "AUC of the end",
    "hazard_ece": "calibration error of the end",
    "hazard_slope": "calibration slope of the end",
    "nats_diffusion": "nats per step of what was answered, adwm",
    "nats_noise": "the same with noise for its latents",
    "nats_wm": "the same steps, wm",
    "nats_wm_and_latent": "the same steps, wm and the latent",
    "value_error": "error of the mean return",
    "replay_error": "error of the mean return, replayed",
    "wm_nats": "wm: nats per step of what was answered, by the model as it is",
    "wm_nats_with_expectations": "wm with expectations by the whole episode so far: nats per step",
    "wm_nats_without_expectations": "wm without expectations by the whole episode so far: nats per step",
    "wm_exact": "wm: share of answers that it gives the highest chance",
    "wm_possible": "wm: share of answers that it can give",
    "wm_possible_ends": "wm: share of answers at the end of an episode that it can give",
    "wm_held_out_steps": "wm: held-out steps that these shares are of",
    "wm_exact_lists": "wm: share of lists of admissible actions that are right",
    "wm_outcome_nats": "wm: nats per step of reward and end",
    "wm_outcome_nats_by_votes": "wm: nats per step of reward and end, from the logged steps alone",
    "wm_outcome_error": "wm: squared error of expected reward and end (1: no better than their mean)",
    "wm_outcome_error_by_votes": "wm: squared error of expected reward and end, from the logged steps alone",
    "wm_replay_error": "wm: error of the mean return, episodes replayed",
    "wm_replay_error_of_the_bag": "wm-bag: error of the mean return, episodes replayed",
    "wm_left_out_error": "wm: error of the mean return, replayed policies left out of the fit",
    "wm_left_out_error_of_the_bag": "wm-bag: error of the mean return, replayed policies left out of the fit",
}


def section(folder: Path) -> Section:
    metrics = folder / "metrics.jsonl"
    rows = [row for row in read_metrics(metrics) if is_number(row.get("member"))] if metrics.is_file() else []
    content = read_optional(folder / "figures.json")
    figures, notes = content.get("figures", {}), content.get("notes", [])
    if not isinstance(figures, dict) or not isinstance(notes, list):
        raise InputError(f"{folder / 'figures.json'}: corrupt: 'figures' must be an object, 'notes' a list")
    settings = read_optional(folder / "config.json")
    blocks: list[Block] = [Facts(_headlines(rows, figures, settings))] if rows or figures else []
    if figures:
        cells = [[Cell(named(name)), figure(_number(value))] for name, value in figures.items()]
        title = "On held-out tasks" + (", mean of the members" if rows else "")
        blocks.append(Table(title, ("figure", "value"), cells))
    if notes:
        blocks.append(Remarks("Weak points of its log", [str(note) for note in notes]))
    if rows:
        caption = "Solid: held-out tasks. Dashed: training."
        blocks.append(Figure("Losses per member", plots.curves(_losses(rows), columns=4, shared=True), caption))
    blocks += _horizon(folder / "horizon.json")
    if settings:
        blocks.append(SettingList("Settings", flat(settings)))
    return Section("world model", "World model", str(folder), blocks)


def _headlines(rows: Rows, figures: Mapping[str, Any], settings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    members = {row["member"] for row in rows}
    seconds = sum(row["seconds"] for row in rows if is_number(row.get("seconds")))
    facts = [
        ("preset", str(settings.get("preset", "")), f"seed {settings.get('seed', '–')}"),
        ("members", str(len(members)), f"{len(rows)} epochs in all, {seconds:,.0f} s"),
        ("effective rank", number(_number(figures.get("effective_rank"))), "of the latents, held-out tasks"),
        ("AUC of the end", number(_number(figures.get("hazard_auc"))), "held-out tasks"),
    ]
    return [fact for fact in facts if fact[1] not in ("", "–", "0")]


def _losses(rows: Rows) -> list[Panel]:
    names = list(dict.fromkeys(name for row in rows for name, value in row.items() if is_number(value)))
    losses = [name for name in names if name not in _NO_LOSS and not name.startswith(_HELD_OUT)]
    members = sorted({row["member"] for row in rows})
    panels = []
    for loss in losses:
        drawn, dashed, colours = {}, set(), {}
        for order, member in enumerate(members):
            own = [row for row in rows if row["member"] == member]
            for name, key in ((f"member {member}", _HELD_OUT + loss), (f"member {member}, training", loss)):
                if (points := curve(own, "epoch", key))[0]:
                    drawn[name], colours[name] = points, order
                    dashed |= {name} if key == loss else set()
        panels.append(Panel(loss, drawn, frozenset(dashed), colours, axis="epoch"))
    return panels


def _horizon(path: Path) -> list[Block]:
    """One panel per metric, one curve per world model; single figures in a table."""
    models = read_optional(path).get("curves", {})
    if not isinstance(models, dict) or not all(isinstance(by_metric, dict) for by_metric in models.values()):
        raise InputError(f'{path}: corrupt: expected {{"curves": {{model: {{metric: [value per step]}}}}}}')
    metrics = list(dict.fromkeys(name for by_metric in models.values() for name in by_metric))
    panels, single = [], []
    for metric in metrics:
        drawn = {
            model: (list(range(1, len(values) + 1)), [_number(value) for value in values])
            for model, by_metric in models.items()
            if isinstance(values := by_metric.get(metric), list) and values
        }
        if drawn:
            panels.append(Panel(named(metric), drawn, axis="step"))
        elif any(is_number(by_metric.get(metric)) for by_metric in models.values()):
            single.append(metric)
    blocks: list[Block] = []
    if panels:
        caption = "Held-out episodes replayed with their own actions; the model sees only what it predicted."
        blocks.append(Figure("Horizon curves: do errors compound?", plots.curves(panels, shared=True), caption))
    if single:
        cells = [
            [Cell(model), *(figure(_number(by_metric.get(m))) for m in single)] for model, by_metric in models.items()
        ]
        blocks.append(Table("Over the whole horizon", ("world model", *map(named, single)), cells))
    return blocks


def named(metric: str) -> str:
    """What a figure of a fit is called in words."""
    return LABELS.get(metric, metric.replace("_", " ").replace("auc", "AUC"))


def _number(value: Any) -> float:
    """NaN where there is none: JSON has null for it."""
    return float(value) if is_number(value) else float("nan")
