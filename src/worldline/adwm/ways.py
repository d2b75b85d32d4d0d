"""How goals were reached: what all logged successes of one sort had in common, and what became of attempts without it.

Able policies do not show what a goal takes: whoever put the plate where it belongs had washed it, so that washing may
seem idle. What every success had done to the thing in question therefore counts as needed, as firmly as the log allows:
of all attempts, at goals of any sort, that lacked something of that kind none succeeded, and it turns out idle with
chance 1 / (attempts + 2), the rule of succession: a half where nobody tried. Nothing is said of worlds where episodes
also end without success.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from worldline.adwm.chronicle import Chronicle
from worldline.adwm.evidence import Evidence
from worldline.types import Trajectory

Attempt: TypeAlias = tuple[str, frozenset[str]]
"""The sort of goal and of action, and what had been done before to the thing it is about."""
_FEW = 3
"""So many successes have something in common by more than chance."""


@dataclass(frozen=True)
class Ways:
    """What successes of each sort had in common."""

    evidence: Evidence
    needed: Mapping[str, frozenset[str]]
    chance: float
    """That something of it is not needed after all."""

    @classmethod
    def of(cls, evidence: Evidence, episodes: Iterable[tuple[Trajectory, Iterable[tuple[Chronicle, str]]]]) -> "Ways":
        """Of logged episodes, each with its actions and the chronicle before each."""
        won: dict[str, list[frozenset[str]]] = defaultdict(list)
        tried: list[Attempt] = []
        lost = False
        for episode, path in episodes:
            for at, (chronicle, action) in enumerate(path):
                sort, done = _attempt(evidence, chronicle, action)
                over = at + 1 == len(episode) and episode.terminated
                if over and episode.steps[at].reward > 0:
                    won[sort].append(done)
                elif episode.steps[at].valid:
                    tried.append((sort, done))
                    lost = lost or over
        common = {sort: frozenset.intersection(*done) for sort, done in won.items() if len(done) >= _FEW}
        needed = {} if lost else {sort: done for sort, done in common.items() if done}
        lacking = sum(bool(needed[sort] - done) for sort, done in tried if sort in needed)
        return cls(evidence, needed, 1 / (lacking + 2))

    def lacking(self, chronicle: Chronicle, action: str) -> frozenset[str]:
        """What all successes like this one had done before, and this one has not."""
        sort, done = _attempt(self.evidence, chronicle, action)
        return self.needed.get(sort, frozenset()) - done


def _attempt(evidence: Evidence, chronicle: Chronicle, action: str) -> Attempt:
    command = evidence.grammar.parse(action)
    sort = f"{evidence.grammar.outline(chronicle.goal)}|{evidence.event(command, chronicle.goal)}"
    return sort, frozenset(evidence.done(chronicle, command))
