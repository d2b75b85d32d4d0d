"""How new a policy is to a log: how much of what it does came after nothing like it in any logged episode.

Each action is taken by its skeleton, without its names. A step is new where no logged episode did the like after the
same kinds of actions, whatever their order, or where none did it so often. The error of a world model is measured on
loggers that are left out of its log; it says nothing of a policy that is far newer to the log than these.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from worldline.types import Trajectory

Skeleton = Callable[[str], str]
"""Of an action, its wording without names."""


class Novelty:
    """What the episodes of a log have done, and after what."""

    def __init__(self, episodes: Iterable[Trajectory], skeleton: Skeleton) -> None:
        self._skeleton = skeleton
        self._before: dict[str, set[int]] = defaultdict(set)
        """Of each skeleton, a number for each set of others that came before it; below, how often it had at most."""
        self._most: Counter[str] = Counter()
        for episode in episodes:
            for action, before, times in self._steps(episode):
                self._before[action].add(before)
                self._most[action] = max(self._most[action], times)

    def share(self, episodes: Iterable[Trajectory]) -> float:
        """The share of the steps of `episodes` that are new."""
        new = [
            before not in self._before.get(action, ()) or times > self._most[action]
            for episode in episodes
            for action, before, times in self._steps(episode)
        ]
        return sum(new) / max(1, len(new))

    def _steps(self, episode: Trajectory) -> Iterator[tuple[str, int, int]]:
        """Each step's skeleton, a number for the set of skeletons before it, and how often it was among them."""
        done, before = Counter[str](), 0
        for step in episode.steps:
            action = self._skeleton(step.action)
            yield action, before, done[action]
            if not done[action]:
                before ^= hash(action)
            done[action] += 1


def newest(logs: Sequence[Sequence[Trajectory]], folds: int, skeleton: Skeleton) -> float | None:
    """The share of the newest logger; `logs` are their episodes, and each fold is new to the others.

    None where there is only one.
    """
    if len(logs) < folds:
        return None
    shares = []
    for fold in range(folds):
        others = Novelty((one for at, log in enumerate(logs) if at % folds != fold for one in log), skeleton)
        shares += [others.share(log) for log in logs[fold::folds]]
    return max(shares)
