"""The part of a large log that the kernel model indexes: bounded, drawn by the seed, and even over tasks and loggers.

One episode of each task and logger comes first, drawn at random, then a second of each, until the bound is reached.
Task and logger are fixed before an episode begins, so the draw does not depend on how episodes went.
"""

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from worldline.adwm.fitting.log_source import LogSource, Numbers, chosen
from worldline.adwm.fitting.survey import FEWEST, Survey, survey
from worldline.adwm.model import LogFacts
from worldline.types import Trajectory, derive_seed

SHORTEST = 5
"""Steps that an episode counts for at least: the last step of each is described, however short it is."""


class LogSample(BaseModel):
    """What was taken of a log that is larger than the bound."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    facts: LogFacts
    """Of the whole log."""
    steps: int
    sampled_episodes: int
    sampled_steps: int

    @property
    def note(self) -> str:
        """What the user must know of it."""
        return (
            f"wm indexes {self.sampled_steps:,} of the log's {self.steps:,} steps ({self.sampled_episodes:,} of "
            f"{self.facts.episodes:,} episodes, drawn evenly over tasks and loggers); held-out figures are of these "
            "(--kernel-steps sets how many)"
        )


def sampled_numbers(log: Survey, most: int, seed: int) -> Numbers:
    """Numbers of the episodes that are indexed, ascending: all where they have no more than `most` steps."""
    cost, episodes = np.maximum(log.lengths, SHORTEST), len(log.lengths)
    if int(cost.sum()) <= most:
        return np.arange(episodes)
    luck = np.random.default_rng(derive_seed(seed, "kernel sample")).random(episodes)
    cells = log.tasks * len(log.facts.policies) + log.policies
    by_cell = np.lexsort((luck, cells))
    first = np.flatnonzero(np.diff(cells[by_cell], prepend=-1))
    place = np.empty(episodes, np.int64)
    place[by_cell] = np.arange(episodes) - np.repeat(first, np.diff(first, append=episodes))
    queue = np.lexsort((luck, place))
    taken = int(np.searchsorted(np.cumsum(cost[queue]), most, side="right"))
    numbers: Numbers = np.sort(queue[: max(FEWEST, taken)])
    return numbers


@dataclass(frozen=True)
class DrawnLog:
    """A log, its survey, and the numbers of the episodes that the kernel model indexes."""

    source: LogSource
    survey: Survey
    numbers: Numbers

    @classmethod
    def of(cls, source: LogSource, most: int, seed: int, *, checked: bool = True) -> "DrawnLog":
        surveyed = survey(source, checked=checked)
        return cls(source, surveyed, sampled_numbers(surveyed, most, seed))

    @property
    def sample(self) -> LogSample | None:
        """What is indexed of the log; None: all of it."""
        if len(self.numbers) == len(self.survey.lengths):
            return None
        return LogSample(
            facts=self.survey.facts,
            steps=self.survey.steps,
            sampled_episodes=len(self.numbers),
            sampled_steps=int(self.survey.lengths[self.numbers].sum()),
        )

    def episodes(self) -> list[Trajectory]:
        """Those that are indexed."""
        return chosen(self.source, self.numbers)
