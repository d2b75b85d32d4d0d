"""The step budget of each task, read from the episodes of a log that were cut.

A task has a budget of its own where its cut episodes have one length and no other episode of it is longer. Where
most tasks with several cut episodes have them of several lengths, something else cut them, and no task has one; nor
where no task has several, which is what would show it.
"""

from dataclasses import dataclass

from worldline.types import Trajectory


@dataclass(slots=True)
class _Cuts:
    """What was seen of one task."""

    longest: int = 0
    episodes: int = 0
    """Those that were cut; below, the length of the first, and whether the others have it too."""
    length: int = 0
    alike: bool = True


class StepBudgets:
    """At how many steps the episodes of each task were cut, one episode after the other."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Cuts] = {}
        self.longest_cut = 0
        """0: no episode was cut."""

    def add(self, episode: Trajectory) -> None:
        cuts = self._tasks.setdefault(episode.task_id, _Cuts())
        cuts.longest = max(cuts.longest, len(episode))
        if episode.truncated:
            cuts.length = cuts.length or len(episode)
            cuts.alike = cuts.alike and len(episode) == cuts.length
            cuts.episodes += 1
            self.longest_cut = max(self.longest_cut, len(episode))

    def by_task(self) -> dict[str, int]:
        """The budgets that differ from the longest cut; tasks without one are cut there."""
        cut = {task: cuts for task, cuts in self._tasks.items() if cuts.episodes}
        several = [cuts.alike for cuts in cut.values() if cuts.episodes > 1]
        if not several or 2 * sum(several) < len(several):
            return {}
        own = {task: cuts.length for task, cuts in cut.items() if cuts.alike and cuts.longest == cuts.length}
        return {task: length for task, length in sorted(own.items()) if length != self.longest_cut}

    def notes(self) -> list[str]:
        """What imagined episodes do not follow."""
        budgets = self.by_task()
        followed = all(
            cuts.alike and cuts.length == budgets.get(task, self.longest_cut)
            for task, cuts in self._tasks.items()
            if cuts.episodes
        )
        where = "of tasks whose logged ones were cut at various lengths, imagined episodes end at"
        return [] if followed else [f"{where} {self.longest_cut} steps"]
