"""`worldline train`: reinforcement learning of a language agent, with world-model co-training.

What trains loads torch, which takes seconds: it is imported after the words have been looked at.
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worldline.cli.verb_result import VerbResult, kept_checkpoints, line_above, note, progress, table
from worldline.command_line import RECIPE_SUFFIXES
from worldline.nearby import nearby
from worldline.signals import kept
from worldline.types import InputError

if TYPE_CHECKING:
    from worldline.paw.recipe import TrainConfig


def __getattr__(name: str) -> Any:
    if name == "Settings":
        from worldline.paw.recipe import TrainConfig

        return TrainConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def refuse_early(words: Sequence[str]) -> None:
    """Refuse a missing `--model` or folder before anything heavy is loaded."""
    if not words or words[0].endswith(RECIPE_SUFFIXES) or "--help" in words or "-h" in words:
        return
    given = next((word.removeprefix("--model=") for word in words if word.startswith("--model=")), None)
    if given is None and "--model" in words[:-1]:
        given = words[list(words).index("--model") + 1]
    if given is None and "--model" not in words:
        raise InputError("missing --model: the causal LM to start from: a folder or a hub id")
    if given and not Path(given).expanduser().exists() and (given.count("/") > 1 or given.startswith((".", "/", "~"))):
        raise InputError(f"--model {given}: no such folder{nearby(given)}")


def run(settings: "TrainConfig") -> VerbResult:
    from worldline.paw.progress import RemainingTime, update_line
    from worldline.paw.train import train

    begun = False
    left = RemainingTime(settings.updates)
    with kept(lambda: _kept(settings, begun)), progress() as bar:
        line = bar.add_task("updates", total=settings.updates, detail="")

        def watch(metrics: dict[str, Any]) -> None:
            nonlocal begun
            begun = True
            remaining = left.after(metrics["update"], time.monotonic())
            line_above(bar, update_line(metrics, settings.updates, remaining))
            bar.update(line, completed=metrics["update"], detail="")

        def playing(what: str, ended: int, planned: int, won: int | None) -> None:
            wins = "" if won is None else f", {won} won"
            bar.update(line, detail=f"{what}: {ended} of {planned} episodes over{wins}")

        def begin(update: int) -> None:
            bar.update(line, completed=update)
            if settings.resume:
                line_above(
                    bar, f"going on from update {update}" if update else "no checkpoint yet: starting at update 0"
                )

        done = train(settings, watch, playing, begin)
    for text in done.notes:
        note(text)
    data = {**done.metrics, "checkpoint": str(done.checkpoint), "out": str(settings.out)}
    rows = [(key, _rounded(value)) for key, value in done.metrics.items() if isinstance(value, int | float)]
    return VerbResult(data, (table(f"last update of {settings.out}", ("metric", "value"), rows), str(done.checkpoint)))


def _rounded(value: float) -> str:
    """Four digits; what rounding left over of nothing is 0."""
    return f"{value if abs(value) >= 1e-12 else 0:.4g}"


def _kept(settings: "TrainConfig", begun: bool) -> str:
    if not begun:
        return f"no update was finished, the checkpoints in {settings.out} are as they were"
    return kept_checkpoints(settings.out, "update", " (--checkpoint-every)")
