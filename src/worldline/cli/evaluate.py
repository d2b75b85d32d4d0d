"""`worldline evaluate`: which policy is best, and how sure are we, from a log alone."""

import os

from worldline.cli.verb_result import VerbResult, progress
from worldline.evaluate import EvaluateConfig, views
from worldline.evaluate import evaluate as judge
from worldline.signals import kept

Settings = EvaluateConfig


def run(settings: EvaluateConfig) -> VerbResult:
    if settings.jobs is None:
        settings = settings.model_copy(update={"jobs": os.cpu_count() or 1})
    with kept(lambda: _kept(settings)), progress() as bar:
        line = bar.add_task("", total=None, detail="")

        def watch(what: str, done: int, total: int) -> None:
            bar.update(line, description=what, completed=done, total=total)

        evaluation = judge(settings, watch=watch)
    return VerbResult(evaluation.as_dict(), tuple(views(evaluation)))


def _kept(settings: EvaluateConfig) -> str:
    """An evaluation is written when it is whole; what models answer is kept as soon as it is computed."""
    folder = settings.cache_folder
    if folder is None:
        return "without --out nothing is kept"
    if not any(folder.glob("*.npy")) and not any(folder.glob("imagined-*")):
        return "no evaluation was written, and nothing is kept"
    return f"no evaluation was written; what models answered is kept in {folder}: the same command goes on"
