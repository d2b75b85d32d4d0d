"""`worldline evaluate`: which policy is best, and how sure are we, from a log alone."""

from worldline.cli.outcome import Outcome, progress
from worldline.evaluate import EvaluateConfig, views
from worldline.evaluate import evaluate as judge

Settings = EvaluateConfig


def run(settings: EvaluateConfig) -> Outcome:
    with progress() as bar:
        line = bar.add_task("", total=None, detail="")

        def watch(what: str, done: int, total: int) -> None:
            bar.update(line, description=what, completed=done, total=total)

        evaluation = judge(settings, watch=watch)
    return Outcome(evaluation.as_dict(), tuple(views(evaluation)))
