"""`worldline train`: reinforcement learning of a language agent, with world-model co-training."""

from typing import Any

from worldline.cli.outcome import Outcome, note, progress, table
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train

Settings = TrainConfig


def run(settings: TrainConfig) -> Outcome:
    with progress() as bar:
        line = bar.add_task("updates", total=settings.updates, detail="")

        def watch(metrics: dict[str, Any]) -> None:
            told = " ".join(f"{key} {metrics[key]:.2f}" for key in ("success", "eval_success") if key in metrics)
            bar.update(line, completed=metrics["update"], detail=told)

        done = train(settings, watch)
    for text in done.notes:
        note(text)
    data = {**done.metrics, "checkpoint": str(done.checkpoint), "out": str(settings.out)}
    rows = [(key, f"{value:.4g}") for key, value in done.metrics.items() if isinstance(value, int | float)]
    return Outcome(data, (table(f"last update of {settings.out}", ("metric", "value"), rows), str(done.checkpoint)))
