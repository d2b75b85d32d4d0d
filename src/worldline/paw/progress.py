"""What a training run prints: a line for every update (what was earned, how the policy moved, how long is left), and a
note at its end where nothing was rewarded."""

from collections.abc import Mapping, Sequence
from typing import Any

FIGURES = (
    ("reward", "reward", ".2f"),
    ("success", "success", ".2f"),
    ("eval_success", "evaluation", ".3f"),
    ("eval_observation_ce", "observation ce", ".3f"),
    ("kl", "kl", ".4f"),
    ("entropy", "entropy", ".3f"),
    ("pg_loss", "policy loss", ".3f"),
    ("value_loss", "value loss", ".3f"),
    ("wm_loss", "world loss", ".3f"),
    ("clip_fraction", "clipped", ".3f"),
    ("seconds_rollout", "rollout s", ".1f"),
    ("seconds_update", "update s", ".1f"),
)
"""Metric, how the line calls it, how it is written. What an update does not have is left out."""


def update_line(metrics: Mapping[str, Any], updates: int, remaining: float | None) -> str:
    """One line of metrics as text; `remaining` in seconds, None before it can be estimated."""
    figures = [f"{label} {metrics[key]:{form}}" for key, label, form in FIGURES if key in metrics]
    left = [] if remaining is None else [f"{duration(remaining)} left"]
    return ", ".join([f"update {metrics['update']} of {updates}: " + (figures or [""])[0], *figures[1:], *left])


def duration(seconds: float) -> str:
    """Hours and minutes, or minutes and seconds."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 60}m{whole % 60:02d}s"


class RemainingTime:
    """Seconds until the last update, by the mean of those that this process has made."""

    def __init__(self, updates: int) -> None:
        self._updates = updates
        self._first: tuple[int, float] | None = None

    def after(self, update: int, now: float) -> float | None:
        """At the end of `update`, at `now` seconds of some clock; None at the first line, which has none before it."""
        if self._first is None:
            self._first = update, now
            return None
        begun, started = self._first
        return (now - started) / (update - begun) * (self._updates - update)


def unrewarded(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A note where no update of the run had a reward to learn from."""
    updates = [row for row in rows if "reward" in row]
    if not updates or any(row["reward"] != 0 for row in updates):
        return []
    invalid = sum(row["invalid"] for row in updates) / len(updates)
    return [
        f"no episode of {len(updates)} updates was rewarded, so the policy had no reward to learn from; {invalid:.0%} "
        "of the actions were invalid: start from a better clone (worldline sft, for more epochs), or play more "
        "episodes per task (--group-size)"
    ]
