"""What an answer left as it was, told by what was done before and after it, in a log without lists of actions.

An action that is answered the same when it is done twice in a row, and differently at other times of an episode, shows
how things are. What stands between two such answers that are the same has changed nothing that they show; what
changed nothing may itself stand between, so this is counted again until no more is found.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from worldline.kernel.paths import FEWEST, SURE, Answered, answered, opening
from worldline.types import Trajectory

T = TypeVar("T")


@dataclass(frozen=True)
class Repeats:
    """What a log without lists says of its answers; nothing, where it has lists."""

    idle: frozenset[Answered] = frozenset()
    """Actions with the first sentence of an answer that left everything as it was."""
    nothing: frozenset[str] = frozenset()
    """Such sentences, where they answer several actions."""
    unchanged: tuple[tuple[bool | None, ...], ...] = ()
    """Of each step of each episode, whether it left everything as it was; None: nobody looked before and after it."""

    @classmethod
    def of(cls, episodes: Sequence[Trajectory]) -> "Repeats":
        if any(step.admissible is not None for episode in episodes for step in episode.steps):
            return cls()
        replays = [answered(episode) for episode in episodes]
        shows = _showing(replays)
        openings = [[(action, opening(answer)) for action, answer in replay] for replay in replays]
        quiet: frozenset[Answered] = frozenset()
        while True:
            both = list(zip(replays, openings, strict=True))
            unchanged = tuple(tuple(_unchanged(replay, pairs, shows, quiet)) for replay, pairs in both)
            judged = [
                (pair, same)
                for pairs, kept in zip(openings, unchanged, strict=True)
                for pair, same in zip(pairs, kept, strict=True)
                if same is not None
            ]
            actions: defaultdict[str, set[str]] = defaultdict(set)
            for (action, sentence), _ in judged:
                actions[sentence].add(action)
            sure = _sure((sentence, same) for (_, sentence), same in judged)
            nothing = frozenset(sentence for sentence in sure if len(actions[sentence]) > 1)
            wider = (
                quiet | _sure(judged) | frozenset(pair for pairs in openings for pair in pairs if pair[1] in nothing)
            )
            if wider == quiet:
                return cls(quiet, nothing, unchanged)
            quiet = wider


def _showing(replays: Sequence[Sequence[Answered]]) -> frozenset[str]:
    """The actions that show how things are."""
    varied = set()
    for replay in replays:
        first: dict[str, str] = {}
        varied |= {action for action, answer in replay if first.setdefault(action, answer) != answer}
    in_a_row = itertools.chain.from_iterable(map(itertools.pairwise, replays))
    return _sure((one[0], one == other) for one, other in in_a_row if one[0] == other[0]) & varied


def _unchanged(
    replay: Sequence[Answered], openings: Sequence[Answered], shows: frozenset[str], idle: frozenset[Answered]
) -> Iterable[bool | None]:
    steps = list(zip(replay, openings, strict=True))
    for before, after in zip(_shown(steps, shows, idle), _shown(steps[::-1], shows, idle)[::-1], strict=True):
        both = before.keys() & after.keys()
        yield all(before[action] == after[action] for action in both) if both else None


def _shown(
    steps: Iterable[tuple[Answered, Answered]], shows: frozenset[str], idle: frozenset[Answered]
) -> list[dict[str, str]]:
    """What was shown when each step was reached, since the last step that may have changed something."""
    shown: dict[str, str] = {}
    reached = []
    for (action, answer), first in steps:
        reached.append(shown)
        shown = (shown if first in idle else {}) | ({action: answer} if action in shows else {})
    return reached


def _sure(judged: Iterable[tuple[T, bool]]) -> frozenset[T]:
    """What is true of nearly all cases, where there are enough."""
    seen: Counter[T] = Counter()
    true: Counter[T] = Counter()
    for one, same in judged:
        seen[one] += 1
        true[one] += same
    return frozenset(one for one, times in seen.items() if times >= FEWEST and true[one] >= SURE * times)
