"""One policy of a comparison: its episodes that have an outcome, by task, and within each group of a breakdown."""

from collections.abc import Iterable, Sequence

import numpy as np

from worldline.comparison.outcomes import EpisodeOutcome
from worldline.comparison.paired import Values, paired, task_means, task_rate
from worldline.comparison.result import LoggedPolicy
from worldline.ope.intervals import Interval, Range, interval, within
from worldline.types import LARGEST_REWARD, InputError

Task = tuple[str, str]
"""Environment and task id."""


class PolicySide:
    """The episodes of one policy that have an outcome, by task."""

    def __init__(self, name: str, outcomes: Iterable[EpisodeOutcome], metric: str) -> None:
        own = [outcome for outcome in outcomes if outcome.policy == name]
        valued = [(outcome, outcome.value(metric)) for outcome in own]
        self.name = name
        self.metric = metric
        for outcome, value in valued:
            if value is not None and abs(value) > LARGEST_REWARD:
                fault = f"too large to compare (at most {LARGEST_REWARD:g}): give rewards in another unit"
                raise InputError(f"episode '{outcome.id}': its {metric} is {value:.3g}, {fault}")
        self.unknown = sum(value is None for _, value in valued)
        self.episodes = [outcome for outcome, value in valued if value is not None]
        self.values = [value for _, value in valued if value is not None]
        self.by_task: dict[Task, list[int]] = {}
        for number, outcome in enumerate(self.episodes):
            self.by_task.setdefault((outcome.env, outcome.task_id), []).append(number)

    def means(self, tasks: Sequence[Task], field: str = "value") -> Values:
        """The mean of a field over each task's episodes; nan where one of them does not say it."""
        columns = {
            "value": self.values,
            "return": [np.nan if outcome.returned is None else outcome.returned for outcome in self.episodes],
            "steps": [np.nan if outcome.steps is None else outcome.steps for outcome in self.episodes],
            "cost": [np.nan if outcome.cost is None else outcome.cost for outcome in self.episodes],
        }
        numbers = [number for task in tasks for number in self.by_task[task]]
        codes = np.repeat(np.arange(len(tasks)), [len(self.by_task[task]) for task in tasks])
        return task_means(np.array(columns[field], dtype=np.float64)[numbers], codes, len(tasks))

    def names(self, task: Task) -> tuple[str, ...]:
        return tuple(self.episodes[number].id for number in self.by_task[task])

    def groups(self) -> "dict[str, PolicySide]":
        """The same policy within each group of the breakdown; episodes of one task may be of several."""
        members: dict[str, list[EpisodeOutcome]] = {}
        for outcome in self.episodes:
            members.setdefault(outcome.group or "(none)", []).append(outcome)
        return {name: PolicySide(self.name, outcomes, self.metric) for name, outcomes in members.items()}

    def summary(self, confidence: float, ends: Range | None) -> LoggedPolicy:
        """Over all its tasks, each the mean of its episodes; `ends`: a loss and a win, where every episode is one."""
        tasks, values = list(self.by_task), np.array(self.values)
        means = self.means(tasks)
        value = float(means.mean())
        if self.metric == "success":
            limits = task_rate(means, np.array([len(self.by_task[task]) for task in tasks]), confidence)
            mean = Interval(value, *limits, len(values))
        elif len(tasks) == 1:
            mean = within(interval(values, np.arange(len(values)), "student-t", confidence), ends)
        else:
            spread = paired(means, confidence, float(np.abs(means).max()) or 1.0)  # of the values, less 0
            mean = within(Interval(value, spread.low, spread.high, len(values)), ends)
        costs = [outcome.cost for outcome in self.episodes if outcome.cost is not None]
        steps = [outcome.steps for outcome in self.episodes if outcome.steps is not None]
        return LoggedPolicy(
            policy=self.name,
            episodes=len(self.episodes) + self.unknown,
            tasks=len(tasks),
            unknown=self.unknown,
            value=mean.value,
            by_episode=float(values.mean()),
            low=mean.low,
            high=mean.high,
            steps=float(np.mean(steps)) if steps else None,
            cost=float(np.mean(costs)) if costs else None,
        )
