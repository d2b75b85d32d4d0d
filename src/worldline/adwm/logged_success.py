"""What a log says of the success of episodes that the world did not end: what imagined ones are judged by.

Success may come with the last step of the budget, as where a contract must only be kept until its end. Nothing that is
answered then says so; the log's own cut episodes do.
"""

from collections.abc import Sequence

import numpy as np

from worldline.types import Trajectory

NEAREST = 8
"""Cut episodes of the log that an imagined one is compared with; more where their returns are as near."""


class LoggedSuccess:
    """Success as the episodes of a log were judged."""

    def __init__(self, episodes: Sequence[Trajectory]) -> None:
        cut = [episode for episode in episodes if episode.truncated]
        judged = [episode for episode in cut if episode.success is not None]
        self.judged = any(episode.success is not None for episode in episodes)
        """Whether the log says of any episode that it succeeded or failed."""
        never = self.judged and all(episode.success is False for episode in cut)
        self.unended: bool | None = False if never else None
        """Of an episode that goes on: no success yet where the log has none without an end; None: nobody can say."""
        self._returns = np.array([episode.episode_return for episode in judged])
        self._successes = [bool(episode.success) for episode in judged]

    def of_ended(self, *, success: bool) -> bool | None:
        """Of an episode that the world ended, in success as far as the log tells."""
        return success if self.judged else None

    def of_cut(self, collected: float, draw: float) -> bool | None:
        """Of an episode that was cut: that of one of the log's whose returns are nearest, by a draw in [0, 1)."""
        if not self._successes:
            return self.unended
        away = np.abs(self._returns - collected)
        farthest = np.sort(away)[:NEAREST][-1]
        near = np.flatnonzero(away <= farthest + 1e-9)
        return self._successes[int(near[int(draw * len(near))])]
