"""What a log says as text, shared by all members of an ensemble; and the steps that narrators are fitted on.

Describing a step (its candidates, its proposals) costs more than learning from it, and does not depend on the member:
so it is done once. Each episode is described by the others: its own record is left out.
"""

import functools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worldline.narrator.admissible import Fillers, Relations, Situation, listed_actions
from worldline.narrator.decoder import Choice, choice, targets
from worldline.narrator.grammar import Grammar
from worldline.narrator.history import History
from worldline.narrator.linear import Ids, padded_ids
from worldline.narrator.outcome_features import OutcomeFeatures, Prerequisites
from worldline.narrator.retrieval import CandidateAnswer, TransitionIndex
from worldline.types import Step, Trajectory


@dataclass(frozen=True)
class LogModel:
    """What a log says as text. Shared by all members of an ensemble."""

    episodes: tuple[Trajectory, ...]
    grammar: Grammar
    index: TransitionIndex
    fillers: Fillers
    outcome_features: OutcomeFeatures
    lists: bool
    """Whether the log lists admissible actions."""
    sorts: bool
    """Whether it always lists them in alphabetical order: some policies go by the order."""
    only_listed_actions: bool
    """Whether the log's policies only ever did what was listed: then the log does not show what the world refuses."""
    always_refused: frozenset[str]
    """Templates of what they did although it was not listed, where the world refused it every time."""
    refusals: frozenset[str]
    """Outlines of what the world only ever said to refuse, and that never ended an episode nor paid."""

    @classmethod
    def of(cls, episodes: Sequence[Trajectory], buckets: int) -> "LogModel":
        actions = listed_actions(episodes)
        grammar = Grammar.induce(actions)
        index = TransitionIndex.of(grammar, episodes)
        listed = [step for episode in episodes for step in episode.steps if step.admissible]
        unlisted = [step for step in listed if step.action not in (step.admissible or ())]
        return cls(
            episodes=tuple(episodes),
            grammar=grammar,
            index=index,
            fillers=Fillers.of(grammar, actions),
            outcome_features=OutcomeFeatures(index, buckets),
            lists=bool(listed),
            sorts=all(list(step.admissible or ()) == sorted(step.admissible or ()) for step in listed),
            only_listed_actions=bool(listed) and not unlisted,
            always_refused=_templates(grammar, unlisted, valid=False) - _templates(grammar, unlisted, valid=True),
            refusals=_refusals(index),
        )

    def history(self, number: int) -> History:
        """The beginning of a logged episode."""
        episode = self.episodes[number]
        return History(self.grammar, episode.task_id, episode.goal, episode.steps[0].observation, number)

    def replay(self, number: int) -> Iterator[tuple[History, int, str, str]]:
        """Each step of a logged episode: the history before it, its index, its action, its answer."""
        episode, history = self.episodes[number], self.history(number)
        answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
        for at, (step, answer) in enumerate(zip(episode.steps, answers, strict=True)):
            yield history, at, step.action, answer
            history.advance(step.action, answer, step.valid)

    @functools.cached_property
    def prerequisites(self) -> Prerequisites:
        """How goals were reached."""
        paths = (((before, action) for before, _, action, _ in self.replay(n)) for n in range(len(self.episodes)))
        return Prerequisites.of(self.outcome_features, zip(self.episodes, paths, strict=True))

    def situation(
        self, history: History, source: CandidateAnswer | None, earlier: Sequence[str], start: Sequence[str]
    ) -> Situation:
        return Situation(history, self.index.contents_model, source, earlier, start)


def _templates(grammar: Grammar, steps: Sequence[Step], *, valid: bool) -> frozenset[str]:
    return frozenset(grammar.parse(step.action).template for step in steps if step.valid == valid)


def _refusals(index: TransitionIndex) -> frozenset[str]:
    outline = index.grammar.outline
    refused = {outline(step.answer) for step in index.transitions if not step.valid}
    other = (outline(step.answer) for step in index.transitions if step.valid or step.ended or step.reward)
    return frozenset(refused.difference(other))


@dataclass(frozen=True)
class Offered:
    """What could be proposed after a step: features (n, F), and which of it the world really listed."""

    episode: int
    ids: Ids
    listed: npt.NDArray[np.float32]


@dataclass(frozen=True)
class Answered:
    """What could be answered to a step, and which candidates are right."""

    episode: int
    step: int
    options: Choice
    right: npt.NDArray[np.bool_]
    offered: bool
    """Whether the world had listed the action."""
    doubt: Relations | None
    """Where it had not: how it relates to the rest, for the admissibility model to say how surprising it was."""


@dataclass(frozen=True)
class Exercises:
    """A sample of logged steps, described."""

    offered: list[Offered]
    answered: list[Answered]

    @classmethod
    def of(cls, log_model: LogModel, *, steps: int, seed: int) -> "Exercises":
        pairs = [(n, at) for n, episode in enumerate(log_model.episodes) for at in range(len(episode))]
        chosen = set(random.Random(seed).sample(pairs, min(steps, len(pairs))))
        exercises = cls([], [])
        for n in sorted({n for n, _ in chosen}):
            for history, at, action, answer in log_model.replay(n):
                if (n, at) in chosen:
                    exercises._add(log_model, history, n, at, action, answer)
        return exercises

    def _add(self, log_model: LogModel, history: History, n: int, at: int, action: str, answer: str) -> None:
        steps = log_model.episodes[n].steps
        options = choice(log_model.index, history, action)
        right = targets(options.candidates, answer, log_model.index, history.goal) > 0
        offered = action in (steps[at].admissible or ())
        start, doubt = steps[0].admissible or (), None
        if log_model.lists and at and not offered:
            doubt = log_model.situation(history, None, steps[at - 1].admissible or (), start).relations(action)
        if right.any() and not right.all():
            self.answered.append(Answered(n, at, options, right, offered, doubt))
        after = steps[at + 1].admissible if at + 1 < len(steps) else None
        if after and log_model.lists:
            source = next((c for c in options.candidates if c.text == answer and c.source is not None), None)
            twin = history.copy()
            twin.advance(action, answer, steps[at].valid)
            situation = log_model.situation(twin, source, steps[at].admissible or (), start)
            proposals, listed = situation.proposals(log_model.fillers), set(after)
            if proposals:
                labels = np.array([one in listed for one in proposals], dtype=np.float32)
                self.offered.append(Offered(n, padded_ids([situation.ids(one) for one in proposals]), labels))
