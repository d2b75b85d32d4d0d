"""`worldline train`: reinforcement learning of a language agent, with world-model co-training."""

from typing import Any

from worldline.cli.verb_result import VerbResult, kept_checkpoints, note, progress, table
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.signals import kept

Settings = TrainConfig


def run(settings: TrainConfig) -> VerbResult:
    begun = False
    with kept(lambda: _kept(settings, begun)), progress() as bar:
        line = bar.add_task("updates", total=settings.updates, detail="")

        def watch(metrics: dict[str, Any]) -> None:
            nonlocal begun
            begun = True
            rates = " ".join(f"{key} {metrics[key]:.2f}" for key in ("success", "eval_success") if key in metrics)
            bar.update(line, completed=metrics["update"], detail=rates)

        done = train(settings, watch)
    for text in done.notes:
        note(text)
    data = {**done.metrics, "checkpoint": str(done.checkpoint), "out": str(settings.out)}
    rows = [(key, f"{value:.4g}") for key, value in done.metrics.items() if isinstance(value, int | float)]
    return VerbResult(data, (table(f"last update of {settings.out}", ("metric", "value"), rows), str(done.checkpoint)))


def _kept(settings: TrainConfig, begun: bool) -> str:
    if not begun:
        return f"no update was finished, the checkpoints in {settings.out} are as they were"
    return kept_checkpoints(settings.out, "update", " (--checkpoint-every)")
