"""Worlds whose tasks are seeds: task "7" of the one split is `reset(seed=7)`."""

from worldline.config import suggest
from worldline.types import InputError

SPLIT = "all"


class SeededTasks:
    """The tasks of such a world: as many as its option `tasks` says."""

    name: str

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks

    def splits(self) -> tuple[str, ...]:
        return (SPLIT,)

    def num_tasks(self, split: str) -> int:
        if split != SPLIT:
            raise InputError(f"{self.name} has no split '{split}'{suggest(split, [SPLIT])}")
        return self._tasks

    def get_task(self, split: str, index: int) -> str:
        if not 0 <= index < self.num_tasks(split):
            raise InputError(
                f"{self.name} has {self.num_tasks(split)} tasks (option 'tasks'), there is no task {index}"
            )
        return str(index)
