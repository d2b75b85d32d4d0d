"""Features of what an action achieved, for the wide part of the heads: is the episode over, and what did it earn?

The networks read the words; these features read the relations that words alone make hard to learn from a few hundred
episodes: does the action name what the goal names, what had been done to that thing before, how often has this been
done already. What the same last action earned in other episodes of the task is the precedent: it tells the reward, but
not whether the episode is over (where episodes of a task often end, they would seem to end by themselves).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from worldline.narrator.grammar import SLOT, Command, kind
from worldline.narrator.history import Chronicle, shared
from worldline.narrator.retrieval import Memory, Transition
from worldline.narrator.words import stable_hash, vocabulary
from worldline.types import Trajectory

_ALIKE = 0.5
"""Least share of common words for an end to be a precedent."""
_LAST = 6
"""Actions that make up the path to an end."""


class Evidence:
    """Describes steps by features, with what the log says of how episodes of each task ended."""

    def __init__(self, memory: Memory, buckets: int) -> None:
        self.grammar = memory.grammar
        self.buckets = buckets
        self._ends: dict[str, list[tuple[Transition, frozenset[str]]]] = defaultdict(list)
        path: list[Command] = []
        for transition in memory.transitions:
            path = [transition.command] if transition.step == 0 else [*path, transition.command]
            if transition.ended:
                self._ends[transition.task].append((transition, _named(path)))

    def ids(self, chronicle: Chronicle, action: str, answer: str) -> list[int]:
        """What doing `action` now and being answered `answer` amounts to, hashed: the precedents first, 0 for none."""
        told = [*self.precedents(chronicle, action), *self.features(chronicle, action, answer)]
        return [1 + stable_hash(feature) % (self.buckets - 1) if feature else 0 for feature in told]

    def features(self, chronicle: Chronicle, action: str, answer: str) -> list[str]:
        command = self.grammar.parse(action)
        asked = [word for word in self.grammar.outline(chronicle.goal).split() if word != SLOT and len(word) > 2]
        event = self.event(command, chronicle.goal)
        found = [event, f"{event}|{' '.join(self.grammar.outline(answer).split()[:5])}"]
        done = sorted(self.done(chronicle, command)) or ["nothing"] * bool(command.things)
        had = [f"had {template}" for template in done]
        past = self._past(chronicle, event)
        found += [f"{event}|{fact}" for fact in (*had, *past, *(f"asked {word}" for word in asked))]
        found += [f"{event}|{word}|{fact}" for word in asked for fact in (*had, *past)]
        return [*found, *self._overlap(chronicle, command, event)]

    def event(self, command: Command, goal: str) -> str:
        """The action with its things reduced to whether the goal names them: "move * to *|11"."""
        named = self.grammar.goal_roles(goal).values()
        return f"{command.template}|{''.join('1' if kind(thing) in named else '0' for thing in command.things)}"

    def done(self, chronicle: Chronicle, command: Command) -> set[str]:
        """What had been done before to the first thing the action is about."""
        return {past.template for past in chronicle.commands for thing in command.things[:1] if thing in past.things}

    def _past(self, chronicle: Chronicle, event: str) -> list[str]:
        """What has been achieved so far: how many things had this same event, and the last action on two things."""
        alike = {past.things for past in chronicle.commands if self.event(past, chronicle.goal) == event}
        pair = next((past for past in reversed(chronicle.commands) if len(past.things) > 1), None)
        return [
            f"times {min(len(alike), 3)}",
            f"holding {self.event(pair, chronicle.goal) if pair else ''}",
        ]

    def _overlap(self, chronicle: Chronicle, command: Command, event: str) -> list[str]:
        """How much of the goal is in what was named, chosen and seen: what web and search tasks are judged by."""
        goal = vocabulary(chronicle.goal)
        named = vocabulary(" ".join(command.things))
        chosen: dict[str, set[str]] = defaultdict(set)
        for past in (*chronicle.commands, command):
            chosen[past.template].update(word for thing in past.things for word in thing.split())
        seen = vocabulary(chronicle.observation)
        read = [word for word in named if any(word in vocabulary(text) for text in chronicle.observations[1:])]
        size = max(1, len(goal))
        return [
            *(f"{event}|goal by {shape} {len(goal & by) / size:.1f}" for shape, by in sorted(chosen.items()) if by),
            f"{event}|goal seen {len(goal & seen) / size:.1f}",
            f"{event}|named seen {len(read) / max(1, len(named)):.1f}",
            f"{event}|named in goal {len(named & goal) / max(1, len(named)):.1f}",
            f"{event}|step {min(len(chronicle.actions), 40) // 4}",
        ]

    def precedents(self, chronicle: Chronicle, action: str) -> list[str]:
        """What other episodes of this task earned at their end, and how far this is from what earned most there.

        Both for the last action and for the path to it. Nearly the same end tells what this one earns; an end that
        earned all there is to earn tells, where tasks have one solution, that another one earns little.
        """
        ends = [(end, named) for end, named in self._ends[chronicle.task] if end.episode != chronicle.episode]
        command = self.grammar.parse(action)
        ours = _named([*chronicle.commands, command])
        alike = {
            "last": [(_likeness(end.command, command), end.reward) for end, _ in ends],
            "path": [(shared(named, ours), end.reward) for end, named in ends],
        }
        told = {f"{part} {sort}": tell(found) for part, found in alike.items() for sort, tell in _TELL.items()}
        return [f"{sort}|{command.template}|{fact}" if fact else "" for sort, fact in told.items()]


def _named(path: Sequence[Command]) -> frozenset[str]:
    """The things that the last few actions of the last one's sort named: what was clicked, not what was searched."""
    alike = [command for command in path if command.template == path[-1].template]
    return frozenset(thing for command in alike[-_LAST:] for thing in command.things)


def _likeness(one: Command, other: Command) -> float:
    """Share of common words in what two actions of one sort are about; what makes them of one sort says nothing."""
    if one.template != other.template:
        return 0.0
    return shared(vocabulary(" ".join(one.things)), vocabulary(" ".join(other.things)))


def _nearest(ends: Sequence[tuple[float, float]]) -> str:
    """How alike the most similar end is, and what such ends earned in the mean."""
    likeness = max((round(alike, 1) for alike, _ in ends), default=0.0)
    if likeness < _ALIKE:
        return ""
    earned = [reward for alike, reward in ends if round(alike, 1) == likeness]
    return f"{likeness}|{sum(earned) / len(earned):.1f}"


def _best(ends: Sequence[tuple[float, float]]) -> str:
    """What the best ends earned, and how alike the nearest of them is."""
    best = max((reward for _, reward in ends), default=0.0)
    return f"{best:.1f}|{max(alike for alike, reward in ends if reward == best):.1f}" if ends else ""


_TELL = {"nearest": _nearest, "best": _best}


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
