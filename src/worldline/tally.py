"""Running totals of a collection: success, return and lengths, with intervals by task."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from worldline import store
from worldline.ope.intervals import Interval, around, interval, two_outcomes, within
from worldline.types import Trajectory

ALIKE = 1e-9
"""An interval below this width says that no task differs from another."""


@dataclass
class Tally:
    """Running totals of a collection: what the summary needs, and no more than that."""

    tasks: list[str] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    successes: list[bool | None] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    answerable: list[bool] = field(default_factory=list)
    """Whether the world held what the task wants; only of episodes that say so."""
    steps: int = 0
    invalid: int = 0
    unscored: int = 0
    """Steps without a log-probability."""

    def add(self, trajectory: Trajectory) -> None:
        self.tasks.append(trajectory.task_id)
        self.returns.append(trajectory.episode_return)
        self.successes.append(trajectory.success)
        if trajectory.score is not None:
            self.scores.append(trajectory.score)
        if "answerable" in trajectory.meta:
            self.answerable.append(trajectory.meta["answerable"] == "true")
        self.steps += len(trajectory)
        self.invalid += sum(not step.valid for step in trajectory.steps)
        self.unscored += sum(step.logprob is None for step in trajectory.steps)

    def join(self, other: "Tally") -> None:
        """Add the totals of other episodes."""
        for name in ("tasks", "returns", "successes", "scores", "answerable"):
            getattr(self, name).extend(getattr(other, name))
        self.steps += other.steps
        self.invalid += other.invalid
        self.unscored += other.unscored

    def recall(self, folder: Path, ids: Collection[str]) -> None:
        """Add the episodes of a log that have these ids."""
        if not ids:
            return
        columns = ["task_id", "return", "success", "score", "steps.valid", "steps.logprob", "meta"]
        table = store.scan(folder, columns, ids=ids)
        for row in table.to_pylist():
            self.tasks.append(row["task_id"])
            self.returns.append(row["return"])
            self.successes.append(row["success"])
            if row["score"] is not None:
                self.scores.append(row["score"])
            self.answerable += [pair["value"] == "true" for pair in row["meta"] if pair["key"] == "answerable"]
            self.steps += len(row["steps"])
            self.invalid += sum(not step["valid"] for step in row["steps"])
            self.unscored += sum(step["logprob"] is None for step in row["steps"])

    @property
    def success_rate(self) -> float:
        """Of the episodes that say it; nan where none does."""
        outcomes = [success for success in self.successes if success is not None]
        return sum(outcomes) / len(outcomes) if outcomes else float("nan")

    def success(self) -> Interval:
        tasks = [task for task, success in zip(self.tasks, self.successes, strict=True) if success is not None]
        if not tasks:
            return Interval(float("nan"), None, None, 0)
        return _wilson(self.success_rate, len(set(tasks)), len(tasks))

    def mean_return(self, lowest: float | None = None, highest: float | None = None) -> Interval:
        """Student's interval over tasks; of wins and losses it ends at these. Where all tasks have the same return, his
        formula would be certain: then other tasks, whose share is Wilson's bound, may have `lowest`, or `highest`. An
        end of which nothing is known gives no limit."""
        codes = np.unique(self.tasks, return_inverse=True)[1]
        returns = np.array(self.returns)
        mean = within(interval(returns, codes, "student-t"), two_outcomes(returns))
        if mean.low is None or mean.high is None or mean.high - mean.low > ALIKE:
            return mean
        others = _wilson(0.0, len(set(self.tasks)), mean.n).high or 0.0
        low, high = (None if end is None else (1 - others) * mean.value + others * end for end in (lowest, highest))
        return around(mean.value, low, high, mean.n)


def _wilson(rate: float, units: int, n: int) -> Interval:
    """Wilson's 95 % interval of a success rate: honest at 0 and 1 too. Episodes of one task count as one unit."""
    z2 = 1.959964**2
    centre = (rate + z2 / (2 * units)) / (1 + z2 / units)
    half = math.sqrt(z2 * (rate * (1 - rate) / units + z2 / (4 * units**2))) / (1 + z2 / units)
    return Interval(rate, max(0.0, min(rate, centre - half)), min(1.0, max(rate, centre + half)), n)
