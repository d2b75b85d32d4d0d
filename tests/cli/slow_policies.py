"""Policies that take their time, so that a signal comes in the middle of a run."""

import os
import time
from pathlib import Path

from worldline.types import Decision, Turn


class Slow:
    """Looks around, 20 ms a turn."""

    name = "slow"

    def act(self, turns: list[Turn]) -> list[Decision]:
        time.sleep(0.02)
        return [Decision("look", "look") for _ in turns]


class Stuck(Slow):
    """Notes down the processes that its process has started, then acts no more."""

    def act(self, turns: list[Turn]) -> list[Decision]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
        Path(os.environ["CHILDREN"]).write_text(children)
        time.sleep(60)
        return super().act(turns)
