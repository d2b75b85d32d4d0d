"""`worldline fit`: a log in, a world model out, with what it is worth on held-out tasks."""

from typing import Any

from worldline.adwm.fit import FitConfig, fit
from worldline.cli.outcome import Outcome, note, progress, table

Settings = FitConfig
_WATCHED = ("diffusion", "reward", "termination")


def run(settings: FitConfig) -> Outcome:
    with progress() as bar:
        line = bar.add_task("reading the log", total=None, detail="")

        def watch(row: dict[str, Any]) -> None:
            losses = " ".join(f"{name} {row[f'held_out_{name}']:.3f}" for name in _WATCHED)
            member = f"member {row['member'] + 1} of {settings.members}"
            bar.update(line, description=member, total=row["of"], completed=row["epoch"], detail=losses)

        fitted = fit(settings, watch)
    for text in fitted.notes:
        note(text)
    data = {"out": str(settings.out), "figures": fitted.figures, "notes": fitted.notes}
    rows = [(name.replace("_", " "), f"{value:.4g}") for name, value in fitted.figures.items()]
    drawn = table("measured on held-out tasks", ("figure", "value"), rows)
    return Outcome(data, (drawn, f"the world model is in {settings.out}"))
