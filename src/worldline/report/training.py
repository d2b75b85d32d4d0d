"""The section on a training or cloning run: learning curves, seconds per phase, last figures, settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worldline.report import plots
from worldline.report.blocks import Block, Cell, Facts, Figure, Section, SettingList, Table, figure, flat, number
from worldline.report.plots import Panel
from worldline.report.source import read_metrics, read_optional

Rows = Sequence[Mapping[str, Any]]

PANELS: dict[str, dict[str, str]] = {  # title: {metric: its name in the legend}
    "success": {"success": "training", "eval_success": "evaluation"},
    "return": {"reward": "training", "eval_return": "evaluation"},
    "world-model loss": {"wm_loss": "world model"},
    "observation cross-entropy": {"eval_observation_ce": "the start's episodes, unseen tasks"},
    "lambda, mean": {"lambda": "lambda"},
    "KL": {"kl": "to the start", "approx_kl": "to the last update"},
    "entropy": {"entropy": "entropy"},
    "loss": {"loss": "loss"},
    "learning rate": {"learning_rate": "learning rate"},
    "gradient norm": {
        "grad_norm": "norm",
        "critic_grad_norm": "critic",
        "grad_norm_policy": "policy alone",
        "grad_norm_world": "world alone",
    },
    "gradients, policy and world": {"grad_cosine": "cosine"},
}
HEADLINES = {"eval_success": "success, evaluation", "success": "success, training", "reward": "return, training"}
_SECONDS = "seconds_"


def section(folder: Path) -> Section:
    rows = read_metrics(folder / "metrics.jsonl")
    axis = "update" if any("update" in row for row in rows) else "step"
    settings = read_optional(folder / "config.json")
    cloning = axis == "step"
    blocks: list[Block] = [Facts(_headlines(rows, axis, settings))]
    panels = [panel for title, names in PANELS.items() if (panel := _panel(rows, axis, title, names)).curves]
    if panels:
        blocks.append(Figure("Learning curves", plots.curves(panels)))
    blocks += _phases(rows, axis)
    blocks.append(_last(rows))
    if settings:
        blocks.append(SettingList("Settings", flat(settings)))
    if machine := read_optional(folder / "env.json"):
        blocks.append(SettingList("Machine", flat(machine)))
    return Section("training", "Cloning" if cloning else "Training", str(folder), blocks)


def curve(rows: Rows, axis: str, name: str) -> tuple[list[float], list[float]]:
    """The rows that have both, as numbers."""
    points = [(row[axis], row[name]) for row in rows if is_number(row.get(name)) and is_number(row.get(axis))]
    return [float(x) for x, _ in points], [float(y) for _, y in points]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _panel(rows: Rows, axis: str, title: str, names: Mapping[str, str]) -> Panel:
    drawn = {label: points for name, label in names.items() if (points := curve(rows, axis, name))[0]}
    return Panel(title, drawn, axis=axis)


def _headlines(rows: Rows, axis: str, settings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    done = [row[axis] for row in rows if is_number(row.get(axis))]
    planned = settings.get("updates") if axis == "update" else rows[-1].get("steps")
    facts = [(f"{axis}s", number(done[-1] if done else None), f"of {number(planned)}" if is_number(planned) else "")]
    for name, label in HEADLINES.items():
        values = curve(rows, axis, name)[1]
        if values:
            facts.append((label, number(values[-1]), f"from {number(values[0])}; best {number(max(values))}"))
    if axis == "step" and (losses := curve(rows, axis, "loss")[1]):
        facts.append(("loss", number(losses[-1]), f"from {number(losses[0])}"))
    how = [str(settings[name]) for name in ("algo", "wm", "preset") if settings.get(name)]
    return [*facts, ("method", " / ".join(how), str(settings.get("env", "")))] if how else facts


def _phases(rows: Rows, axis: str) -> list[Block]:
    """Where the time went. The world model's seconds are a share of the update's, not beside them."""
    names = list(dict.fromkeys(name for row in rows for name in row if name.startswith(_SECONDS)))
    spent = {name.removeprefix(_SECONDS): curve(rows, axis, name) for name in names}
    whole = sum(sum(ys) for phase, (_, ys) in spent.items() if phase != "wm")
    if not whole:
        return []
    rows_ = [
        [
            Cell(phase, "within update" if phase == "wm" else ""),
            figure(sum(ys)),
            figure(sum(ys) / len(ys)),
            Cell(f"{sum(ys) / whole:.0%}"),
        ]
        for phase, (_, ys) in spent.items()
        if ys
    ]
    panel = Panel("seconds per phase", spent, dashed=frozenset({"wm"}), axis=axis)
    return [
        Table("Seconds per phase", ("phase", "seconds", f"per {axis}", "share"), rows_),
        Figure("", plots.curves([panel], shared=True)),
    ]


def _last(rows: Rows) -> Table:
    """The newest value of every metric."""
    newest: dict[str, Any] = {}
    for row in rows:
        newest |= {name: value for name, value in row.items() if is_number(value)}
    cells = [[Cell(name), figure(value)] for name, value in newest.items() if not name.startswith(_SECONDS)]
    half = (len(cells) + 1) // 2
    pairs = [[*left, *right] for left, right in zip(cells[:half], [*cells[half:], [Cell(""), Cell("")]], strict=False)]
    return Table("Last figures", ("metric", "value", "metric", "value"), pairs)
