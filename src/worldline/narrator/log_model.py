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
from worldline.narrator.history import Chronicle
from worldline.narrator.linear import Ids, padded_ids
from worldline.narrator.outcome_features import Evidence, Ways
from worldline.narrator.retrieval import Candidate, Memory
from worldline.types import Step, Trajectory


@dataclass(frozen=True)
class Lore:
    """What a log says as text. Shared by all members of an ensemble."""

    episodes: tuple[Trajectory, ...]
    grammar: Grammar
    memory: Memory
    fillers: Fillers
    evidence: Evidence
    lists: bool
    """Whether the log lists admissible actions."""
    sorts: bool
    """Whether it always lists them in alphabetical order: some policies go by the order."""
    obedient: bool
    """Whether the log's policies only ever did what was listed: then nothing is known of what the world refuses."""
    strict: frozenset[str]
    """Templates of what they did although it was not listed, where the world refused it every time."""
    refusals: frozenset[str]
    """Outlines of what the world only ever said to refuse, and that never ended an episode nor paid."""

    @classmethod
    def of(cls, episodes: Sequence[Trajectory], buckets: int) -> "Lore":
        actions = listed_actions(episodes)
        grammar = Grammar.induce(actions)
        memory = Memory.of(grammar, episodes)
        listed = [step for episode in episodes for step in episode.steps if step.admissible]
        unlisted = [step for step in listed if step.action not in (step.admissible or ())]
        return cls(
            episodes=tuple(episodes),
            grammar=grammar,
            memory=memory,
            fillers=Fillers.of(grammar, actions),
            evidence=Evidence(memory, buckets),
            lists=bool(listed),
            sorts=all(list(step.admissible or ()) == sorted(step.admissible or ()) for step in listed),
            obedient=bool(listed) and not unlisted,
            strict=_templates(grammar, unlisted, valid=False) - _templates(grammar, unlisted, valid=True),
            refusals=_refusals(memory),
        )

    def chronicle(self, number: int) -> Chronicle:
        """The beginning of a logged episode."""
        episode = self.episodes[number]
        return Chronicle(self.grammar, episode.task_id, episode.goal, episode.steps[0].observation, number)

    def replay(self, number: int) -> Iterator[tuple[Chronicle, int, str, str]]:
        """Each step of a logged episode: the chronicle before it, its index, its action, its answer."""
        episode, chronicle = self.episodes[number], self.chronicle(number)
        answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
        for at, (step, answer) in enumerate(zip(episode.steps, answers, strict=True)):
            yield chronicle, at, step.action, answer
            chronicle.advance(step.action, answer, step.valid)

    @functools.cached_property
    def ways(self) -> Ways:
        """How goals were reached."""
        paths = (((before, action) for before, _, action, _ in self.replay(n)) for n in range(len(self.episodes)))
        return Ways.of(self.evidence, zip(self.episodes, paths, strict=True))

    def situation(
        self, chronicle: Chronicle, source: Candidate | None, earlier: Sequence[str], start: Sequence[str]
    ) -> Situation:
        return Situation(chronicle, self.memory.custom, source, earlier, start)


def _templates(grammar: Grammar, steps: Sequence[Step], *, valid: bool) -> frozenset[str]:
    return frozenset(grammar.parse(step.action).template for step in steps if step.valid == valid)


def _refusals(memory: Memory) -> frozenset[str]:
    outline = memory.grammar.outline
    refused = {outline(step.answer) for step in memory.transitions if not step.valid}
    other = (outline(step.answer) for step in memory.transitions if step.valid or step.ended or step.reward)
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
    def of(cls, lore: Lore, *, steps: int, seed: int) -> "Exercises":
        pairs = [(n, at) for n, episode in enumerate(lore.episodes) for at in range(len(episode))]
        chosen = set(random.Random(seed).sample(pairs, min(steps, len(pairs))))
        exercises = cls([], [])
        for n in sorted({n for n, _ in chosen}):
            for chronicle, at, action, answer in lore.replay(n):
                if (n, at) in chosen:
                    exercises._add(lore, chronicle, n, at, action, answer)
        return exercises

    def _add(self, lore: Lore, chronicle: Chronicle, n: int, at: int, action: str, answer: str) -> None:
        steps = lore.episodes[n].steps
        options = choice(lore.memory, chronicle, action)
        right = targets(options.candidates, answer, lore.memory, chronicle.goal) > 0
        offered = action in (steps[at].admissible or ())
        start, doubt = steps[0].admissible or (), None
        if lore.lists and at and not offered:
            doubt = lore.situation(chronicle, None, steps[at - 1].admissible or (), start).relations(action)
        if right.any() and not right.all():
            self.answered.append(Answered(n, at, options, right, offered, doubt))
        after = steps[at + 1].admissible if at + 1 < len(steps) else None
        if after and lore.lists:
            source = next((c for c in options.candidates if c.text == answer and c.source is not None), None)
            twin = chronicle.copy()
            twin.advance(action, answer, steps[at].valid)
            situation = lore.situation(twin, source, steps[at].admissible or (), start)
            asked, true = situation.proposals(lore.fillers), set(after)
            if asked:
                labels = np.array([one in true for one in asked], dtype=np.float32)
                self.offered.append(Offered(n, padded_ids([situation.ids(one) for one in asked]), labels))
