"""Where an episode stands, by what it did: its actions, less those that changed nothing and those that were undone.

In a world that shows only what is near, two places look alike; how one got there tells them apart. Which actions undo
each other, and which answers leave everything as it was, is counted in the log: after an action and the one that undoes
it, the world shows and lists what it did before. What is left of an episode's actions is its path.
"""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from worldline.kernel.words import stable_hash
from worldline.types import Trajectory

SURE, FEWEST = 0.95, 10
"""Share of the logged cases in which two actions must cancel, or an answer change nothing; and the fewest cases."""
CONSTANT = 0.5
"""A sentence that is in more than this share of the observations says nothing about where one is."""
_SENTENCE, _END = re.compile(r"(?<=[.!?])\s+"), re.compile(r"[.!?]\s")
Answered = tuple[str, str]
"""An action and what was answered to it, or the first sentence of this."""
Situation = tuple[str, tuple[str, ...] | None]
"""The last sentence that the world says and does not say all the time, and what it lists."""


@functools.lru_cache(maxsize=1 << 14)
def opening(text: str) -> str:
    """The first sentence."""
    text = text.strip()
    match = _END.search(text)
    return text[: match.start() + 1] if match else text


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The actions that are left, the latest first: each knows the path before it, so that a step costs the same in a
    long episode. `ordered` tells paths apart, `unordered` their actions in any order.
    """

    before: "Path | None" = None
    action: str = ""
    ordered: int = 0
    unordered: int = 0

    def then(self, action: str) -> "Path":
        """The path with one more action."""
        ordered = stable_hash(f"{self.ordered} {action}")
        return Path(self, action, ordered, (self.unordered + stable_hash(action)) % 2**64)


START = Path()


@dataclass(frozen=True)
class Moves:
    """What a log says about its actions: which pairs cancel, and which (action, first sentence) change nothing."""

    undone: frozenset[tuple[str, str]] = frozenset()
    idle: frozenset[Answered] = frozenset()
    nothing: frozenset[str] = frozenset()
    """First sentences that say of any action that it changed nothing."""

    @classmethod
    def of(
        cls,
        episodes: Sequence[Trajectory],
        idle: frozenset[Answered] = frozenset(),
        nothing: frozenset[str] = frozenset(),
    ) -> "Moves":
        """`idle` and `nothing` are known; more that is idle is read from what is shown and listed."""
        steps = [step for episode in episodes for step in episode.steps]
        spoken = Counter(sentence for step in steps for sentence in set(_SENTENCE.split(step.observation.strip())))
        constant = frozenset(sentence for sentence, times in spoken.items() if times > CONSTANT * len(steps))
        replays = [_situations(episode, constant) for episode in episodes]
        seen: Counter[tuple[str, str]] = Counter()
        kept: Counter[tuple[str, str]] = Counter()
        for episode, shown in zip(episodes, replays, strict=True):
            for at, (action, answer) in enumerate(answered(episode)):
                seen[action, opening(answer)] += 1
                kept[action, opening(answer)] += shown[at] == shown[at + 1]
        idle |= frozenset(pair for pair, times in seen.items() if times >= FEWEST and kept[pair] >= SURE * times)
        still = cls(idle=idle, nothing=nothing)
        seen.clear()
        kept.clear()
        for episode, shown in zip(episodes, replays, strict=True):
            moved = [at for at, pair in enumerate(answered(episode)) if not still.idles(*pair)]
            for first, second in zip(moved, moved[1:], strict=False):
                pair = episode.steps[first].action, episode.steps[second].action
                seen[pair] += 1
                kept[pair] += shown[first] == shown[second + 1]
        undone = frozenset(pair for pair, times in seen.items() if times >= FEWEST and kept[pair] >= SURE * times)
        return cls(undone, idle, nothing)

    def idles(self, action: str, answer: str) -> bool:
        """Whether the action, answered so, changed nothing."""
        return (action, opening(answer)) in self.idle or opening(answer) in self.nothing

    def after(self, path: Path, action: str, answer: str) -> Path:
        """The path after one more step."""
        return path if self.idles(action, answer) else self.going(path, action)

    def going(self, path: Path, action: str) -> Path:
        """The path after an action that changes something."""
        return path.before if path.before and (path.action, action) in self.undone else path.then(action)


def answered(episode: Trajectory) -> list[Answered]:
    """Every action with its answer, but for the last: an end is no place."""
    actions = [step.action for step in episode.steps]
    return list(zip(actions, episode.next_observations, strict=True))[:-1]


def _situations(episode: Trajectory, constant: frozenset[str]) -> list[Situation]:
    out: list[Situation] = []
    for step in episode.steps:
        sentences = [one for one in _SENTENCE.split(step.observation.strip()) if one not in constant]
        out.append((sentences[-1] if sentences else "", step.admissible))
    return out
