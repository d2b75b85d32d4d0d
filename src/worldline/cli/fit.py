"""`worldline fit`: a log in, a world model out, with what it is worth on held-out tasks."""

import os
from typing import Any

from worldline.adwm.fit import FitConfig, fit
from worldline.cli.verb_result import VerbResult, note, progress, table
from worldline.report.world_model import named
from worldline.signals import kept

Settings = FitConfig
_WATCHED = ("diffusion", "reward", "termination")


def run(settings: FitConfig) -> VerbResult:
    if settings.jobs is None:
        settings = settings.model_copy(update={"jobs": os.cpu_count() or 1})
    reached = ""
    with kept(lambda: _kept(settings, reached)), progress() as bar:
        line = bar.add_task("reading the log", total=None, detail="")

        def watch(row: dict[str, Any]) -> None:
            nonlocal reached
            reached = f"epoch {row['epoch']} of member {row['member'] + 1}"
            losses = " ".join(f"{name} {row[f'held_out_{name}']:.3f}" for name in _WATCHED)
            member = f"member {row['member'] + 1} of {settings.members}"
            bar.update(line, description=member, total=row["of"], completed=row["epoch"], detail=losses)

        def stage(what: str, done: int, of: int) -> None:
            bar.update(line, description=what, total=of, completed=done, detail="")

        fitted = fit(settings, watch, stage)
    for text in fitted.notes:
        note(text)
    data = {"out": str(settings.out), "figures": fitted.figures, "notes": fitted.notes}
    rows = [(named(name), f"{value:.4g}") for name, value in fitted.figures.items()]
    drawn = table("measured on held-out tasks", ("figure", "value"), rows)
    return VerbResult(data, (drawn, f"the world model is in {settings.out}"))


def _kept(settings: FitConfig, reached: str) -> str:
    if not reached:
        return "no epoch was finished" if settings.members else "wm was not finished: --resume goes on with it"
    return f"kept up to {reached} in {settings.out}: --resume goes on from there"
