"""`worldline collect`: play a policy, print how it did, keep the log."""

import math
import time
from typing import Any

from rich.table import Table

from worldline import store
from worldline.cli.verb_result import Speed, VerbResult, note, progress, table
from worldline.collect import CollectConfig, Collection, collect
from worldline.signals import kept
from worldline.tally import Tally
from worldline.types import policy_label

Settings = CollectConfig


def run(settings: CollectConfig) -> VerbResult:
    with kept(lambda: _kept(settings)), progress() as bar:
        line = bar.add_task("episodes", total=settings.episodes, detail="")

        speed = Speed()

        def watch(tally: Tally) -> None:
            count = len(tally.returns)
            rate = "" if math.isnan(tally.success_rate) else f" success {tally.success_rate:.2f}"
            bar.update(line, completed=count, detail=f"{speed.at(count, time.monotonic()):.1f}/s{rate}")

        done = collect(settings, watch)
    for text in done.notes:
        note(text)
    if done.retried > len(done.failed):
        note(f"{done.retried} episodes failed once and were played again, the first: {done.mishap}")
    for reason in done.failed:
        note(f"an episode failed twice and was left out: {reason}")
    if settings.out is not None and done.tally.unscored == done.tally.steps:
        note(
            f"no log-probs are written: policy '{settings.policy_name}' gives none; functions and API agents do not, "
            "an object with `logprobs(turns, actions)` and a `logprob` in each Decision does (docs/policies.md)"
        )
    return VerbResult(done.summary(), (_view(done), *_units(done)))


def _kept(settings: CollectConfig) -> str:
    if settings.out is None:
        return "without --out nothing is kept"
    return f"{len(store.ids(settings.out))} finished episodes are kept in {settings.out}: --resume goes on"


def _view(done: Collection) -> Table:
    summary = done.summary()
    rows = [
        ("success", *_rate(summary)),
        ("return", f"{summary['return']:.3f}", _span(summary, "return")),
        ("steps per episode", f"{summary['mean_length']:.1f}", ""),
        ("invalid actions", str(summary["invalid_actions"]), ""),
        ("steps/s", f"{summary['steps_per_second']:.0f}", ""),
    ]
    if summary["answerable"] is not None:
        rows.insert(2, ("answer in the corpus, at most", f"{summary['answerable']:.3f}", ""))
    name = policy_label(summary["policy"], summary["epsilon"])
    title = f"{name} in {summary['env']} ({summary['split']}), {summary['episodes']} episodes"
    return table(title, ("", "value", "95 % interval"), rows)


def _units(done: Collection) -> tuple[str, ...]:
    """What the intervals are over, where it is not the episodes."""
    tasks, episodes = len(set(done.tally.tasks)), len(done.tally.returns)
    if tasks == episodes:
        return ()
    units = f"{tasks} tasks are the units" if tasks > 1 else "one task is the unit"
    return (f"intervals: {units}, not {episodes} episodes",)


def _rate(summary: dict[str, Any]) -> tuple[str, str]:
    """The success rate; an environment need not say who has won."""
    if math.isnan(summary["success"]):
        return "unknown", "the environment does not say"
    return f"{summary['success']:.3f}", _span(summary, "success")


def _span(summary: dict[str, Any], name: str) -> str:
    """The interval of a figure; the return of a single task has none."""
    low, high = summary[f"{name}_low"], summary[f"{name}_high"]
    return "-" if low is None or high is None else f"[{low:.3f}, {high:.3f}]"
