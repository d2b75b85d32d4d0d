"""Features of what an action achieved, for the linear part of the heads: is the episode over, and what did it earn?

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
from worldline.narrator.history import History, shared
from worldline.narrator.retrieval import Transition, TransitionIndex
from worldline.narrator.words import stable_hash, vocabulary
from worldline.types import Trajectory

_ALIKE = 0.5
"""Least share of common words for an end to be a precedent."""
_LAST = 6
"""Actions that make up the path to an end."""
Attempt: TypeAlias = tuple[str, frozenset[str]]
"""The sort of goal and of action, and what had been done before to the thing it is about."""
_FEW = 3
"""So many successes have something in common by more than chance."""


class OutcomeFeatures:
    """Describes steps by features, with what the log says of how episodes of each task ended."""

    def __init__(self, index: TransitionIndex, buckets: int) -> None:
        self.grammar = index.grammar
        self.buckets = buckets
        self._ends: dict[str, list[tuple[Transition, frozenset[str]]]] = defaultdict(list)
        path: list[Command] = []
        for transition in index.transitions:
            path = [transition.command] if transition.step == 0 else [*path, transition.command]
            if transition.ended:
                self._ends[transition.task].append((transition, _named(path)))

    def ids(self, history: History, action: str, answer: str) -> list[int]:
        """What doing `action` now and being answered `answer` amounts to, hashed: the precedents first, 0 for none."""
        features = [*self.precedents(history, action), *self.features(history, action, answer)]
        return [1 + stable_hash(feature) % (self.buckets - 1) if feature else 0 for feature in features]

    def features(self, history: History, action: str, answer: str) -> list[str]:
        command = self.grammar.parse(action)
        goal_words = [word for word in self.grammar.outline(history.goal).split() if word != SLOT and len(word) > 2]
        event = self.event(command, history.goal)
        features = [event, f"{event}|{' '.join(self.grammar.outline(answer).split()[:5])}"]
        done = sorted(self.done(history, command)) or ["nothing"] * bool(command.things)
        had = [f"had {template}" for template in done]
        past = self._past(history, event)
        features += [f"{event}|{fact}" for fact in (*had, *past, *(f"asked {word}" for word in goal_words))]
        features += [f"{event}|{word}|{fact}" for word in goal_words for fact in (*had, *past)]
        return [*features, *self._overlap(history, command, event)]

    def event(self, command: Command, goal: str) -> str:
        """The action with its things reduced to whether the goal names them: "move * to *|11"."""
        named = self.grammar.goal_roles(goal).values()
        return f"{command.template}|{''.join('1' if kind(thing) in named else '0' for thing in command.things)}"

    def done(self, history: History, command: Command) -> set[str]:
        """What had been done before to the first thing the action is about."""
        return {past.template for past in history.commands for thing in command.things[:1] if thing in past.things}

    def _past(self, history: History, event: str) -> list[str]:
        """What has been achieved so far: how many things had this same event, and the last action on two things."""
        alike = {past.things for past in history.commands if self.event(past, history.goal) == event}
        pair = next((past for past in reversed(history.commands) if len(past.things) > 1), None)
        return [
            f"times {min(len(alike), 3)}",
            f"holding {self.event(pair, history.goal) if pair else ''}",
        ]

    def _overlap(self, history: History, command: Command, event: str) -> list[str]:
        """How much of the goal is in what was named, chosen and seen: what web and search tasks are judged by."""
        goal = vocabulary(history.goal)
        named = vocabulary(" ".join(command.things))
        chosen: dict[str, set[str]] = defaultdict(set)
        for past in (*history.commands, command):
            chosen[past.template].update(word for thing in past.things for word in thing.split())
        seen = vocabulary(history.observation)
        read = [word for word in named if any(word in vocabulary(text) for text in history.observations[1:])]
        size = max(1, len(goal))
        return [
            *(f"{event}|goal by {shape} {len(goal & by) / size:.1f}" for shape, by in sorted(chosen.items()) if by),
            f"{event}|goal seen {len(goal & seen) / size:.1f}",
            f"{event}|named seen {len(read) / max(1, len(named)):.1f}",
            f"{event}|named in goal {len(named & goal) / max(1, len(named)):.1f}",
            f"{event}|step {min(len(history.actions), 40) // 4}",
        ]

    def precedents(self, history: History, action: str) -> list[str]:
        """What other episodes of this task earned at their end, and how far this is from what earned most there.

        Both for the last action and for the path to it. Nearly the same end tells what this one earns; an end that
        earned all there is to earn tells, where tasks have one solution, that another one earns little.
        """
        ends = [(end, named) for end, named in self._ends[history.task] if end.episode != history.episode]
        command = self.grammar.parse(action)
        ours = _named([*history.commands, command])
        alike = {
            "last": [(_likeness(end.command, command), end.reward) for end, _ in ends],
            "path": [(shared(named, ours), end.reward) for end, named in ends],
        }
        facts = {
            f"{part} {sort}": describe(ends_alike)
            for part, ends_alike in alike.items()
            for sort, describe in _DESCRIBE.items()
        }
        return [f"{sort}|{command.template}|{fact}" if fact else "" for sort, fact in facts.items()]


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


_DESCRIBE = {"nearest": _nearest, "best": _best}


@dataclass(frozen=True)
class Prerequisites:
    """What successes of each sort had in common."""

    outcome_features: OutcomeFeatures
    needed: Mapping[str, frozenset[str]]
    chance: float
    """That something of it is not needed after all."""

    @classmethod
    def of(
        cls, outcome_features: OutcomeFeatures, episodes: Iterable[tuple[Trajectory, Iterable[tuple[History, str]]]]
    ) -> "Prerequisites":
        """Of logged episodes, each with its actions and the history before each."""
        won: dict[str, list[frozenset[str]]] = defaultdict(list)
        tried: list[Attempt] = []
        lost = False
        for episode, path in episodes:
            for at, (history, action) in enumerate(path):
                sort, done = _attempt(outcome_features, history, action)
                over = at + 1 == len(episode) and episode.terminated
                if over and episode.steps[at].reward > 0:
                    won[sort].append(done)
                elif episode.steps[at].valid:
                    tried.append((sort, done))
                    lost = lost or over
        common = {sort: frozenset.intersection(*done) for sort, done in won.items() if len(done) >= _FEW}
        needed = {} if lost else {sort: done for sort, done in common.items() if done}
        without = sum(bool(needed[sort] - done) for sort, done in tried if sort in needed)
        return cls(outcome_features, needed, 1 / (without + 2))

    def missing(self, history: History, action: str) -> frozenset[str]:
        """What all successes like this one had done before, and this one has not."""
        sort, done = _attempt(self.outcome_features, history, action)
        return self.needed.get(sort, frozenset()) - done


def _attempt(outcome_features: OutcomeFeatures, history: History, action: str) -> Attempt:
    command = outcome_features.grammar.parse(action)
    sort = f"{outcome_features.grammar.outline(history.goal)}|{outcome_features.event(command, history.goal)}"
    return sort, frozenset(outcome_features.done(history, command))
