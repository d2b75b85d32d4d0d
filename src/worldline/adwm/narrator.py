"""The text side of a world model: what the world says, what it allows, and what an action achieved.

Puts together what was learned from the log as text (grammar, memory, decoder, admissibility) and fits the two models
among them. The networks come in by the latent they sample, which the decoder weighs with everything else it knows.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from worldline.adwm.admissibility import Admissibility, Fillers, Situation, listed_actions, padded_ids
from worldline.adwm.chronicle import Chronicle
from worldline.adwm.decoder import Choice, Decoder, choice, targets
from worldline.adwm.evidence import Evidence
from worldline.adwm.grammar import Grammar
from worldline.adwm.memory import REFUSED, SAME, SHAPE, Candidate, Memory
from worldline.types import Trajectory

_RATE, _DECAY, _BATCH = 0.02, 1e-3, 16
_UNSURE = "?"
_RARE = 0.05
"""A sort of answer (an outline) less likely than this is not drawn."""


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

    @classmethod
    def of(cls, episodes: Sequence[Trajectory], buckets: int) -> "Lore":
        actions = listed_actions(episodes)
        grammar = Grammar.induce(actions)
        memory = Memory.of(grammar, episodes)
        lists = any(step.admissible for episode in episodes for step in episode.steps)
        fillers = Fillers.of(grammar, actions)
        return cls(tuple(episodes), grammar, memory, fillers, Evidence(memory, buckets), lists)

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
            chronicle.advance(step.action, answer)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the world says, where that comes from, and how far its latent is from the one that was sampled."""

    text: str
    candidate: Candidate | None
    distance: float = 0.0

    @property
    def valid(self) -> bool:
        return self.candidate is None or self.candidate.source is None or self.candidate.source.valid

    @property
    def supported(self) -> bool:
        """Whether the log has seen this sort of thing: neither made up nor carried over from another template's use."""
        return self.candidate is not None and self.candidate.near not in (SHAPE, REFUSED)


@dataclass(frozen=True, slots=True)
class Question:
    """An action done in an episode; `luck` in [0, 1) decides among the possible answers."""

    chronicle: Chronicle
    action: str
    listed: str
    luck: float


def _drawn(question: Question, options: Choice, distance: npt.NDArray[np.float32], scores: Tensor) -> Answer:
    if not options.candidates:
        return Answer(question.chronicle.observation, None, float("inf"))
    chances = scores.softmax(0).numpy()
    # A world has habits: a sort of answer that is very unlikely here is the model's doubt, not the world's.
    sorts: dict[str, float] = defaultdict(float)
    outlines = [question.chronicle.grammar.outline(candidate.text) for candidate in options.candidates]
    for outline, chance in zip(outlines, chances, strict=True):
        sorts[outline] += float(chance)
    least = min(_RARE, max(sorts.values()))
    mass = np.where([sorts[outline] >= least for outline in outlines], chances, 0.0).cumsum()
    at = min(int(np.searchsorted(mass, question.luck * mass[-1], side="right")), len(mass) - 1)
    return Answer(options.candidates[at].text, options.candidates[at], float(distance[at]))


class Narrator(nn.Module):
    """Decoder and admissibility over a log's lore, with the latent of every logged answer."""

    latents: Tensor

    def __init__(self, lore: Lore, latent: int) -> None:
        super().__init__()
        self.lore = lore
        self.decoder = Decoder()
        self.admissibility = Admissibility()
        self.register_buffer("latents", torch.zeros(len(lore.memory.transitions), latent))

    @torch.no_grad()
    def listed(
        self, situations: Sequence[Situation | None], offers: Sequence[Sequence[str] | None], actions: Sequence[str]
    ) -> list[str]:
        """Whether the world offers each action; where it does not, how unlikely that was (it may be our mistake)."""
        if not self.lore.lists:
            return [_UNSURE] * len(actions)
        told = ["yes" if action in (offer or ()) else "no" for offer, action in zip(offers, actions, strict=True)]
        doubted = [at for at, situation in enumerate(situations) if situation is not None and told[at] == "no"]
        ids = [situation.ids(actions[at]) for at in doubted if (situation := situations[at]) is not None]
        if ids:
            chances = torch.sigmoid(self.admissibility(torch.from_numpy(padded_ids(ids)))).tolist()
            for at, chance in zip(doubted, chances, strict=True):
                told[at] = f"no {min(int(chance * 5), 4)}"
        return told

    @torch.no_grad()
    def answers(self, questions: Sequence[Question], z: Tensor) -> list[Answer]:
        """Draw the answer to each question by inverse CDF at its luck; `z` (n, latent) are the sampled latents."""
        options = [choice(self.lore.memory, q.chronicle, q.action, q.listed) for q in questions]
        near = [self.distances(one, latent) for one, latent in zip(options, z.cpu(), strict=True)]
        if not any(one.candidates for one in options):
            return [Answer(q.chronicle.observation, None, float("inf")) for q in questions]
        scores = self.decoder(
            torch.from_numpy(_stacked([one.features for one in options])),
            torch.from_numpy(np.concatenate([one.near for one in options])),
            torch.from_numpy(np.concatenate(near)),
        ).double()
        parts = torch.split(scores, [len(one.candidates) for one in options])
        return [_drawn(*one) for one in zip(questions, options, near, parts, strict=True)]

    def nearest(self, chronicle: Chronicle, action: str, z: Tensor) -> Answer:
        """The logged answer whose latent is nearest to z, of the same action or at least the same template."""
        memory = self.lore.memory
        rows = torch.tensor([at for at in memory.like(action) if memory.transitions[at].episode != chronicle.episode])
        if not len(rows):
            return Answer(chronicle.observation, None, float("inf"))
        apart = (self.latents[rows] - z).pow(2).mean(-1)
        best = int(apart.argmin())
        return replace(self.copied(int(rows[best])), distance=float(apart[best]))

    def copied(self, index: int) -> Answer:
        """A logged answer as it stands."""
        source = self.lore.memory.transitions[index]
        return Answer(source.answer, Candidate(SAME, source.answer, source))

    @torch.no_grad()
    def allowed(self, situations: Sequence[Situation]) -> list[tuple[str, ...]]:
        """The actions more likely listed than not in each situation; where none is, the likeliest one."""
        asked = [situation.proposals(self.lore.fillers) for situation in situations]
        ids = [situation.ids(one) for situation, many in zip(situations, asked, strict=True) for one in many]
        logits = self.admissibility(torch.from_numpy(padded_ids(ids))) if ids else torch.zeros(0)
        found = []
        for many, scores in zip(asked, torch.split(logits, [len(many) for many in asked]), strict=True):
            kept = tuple(action for action, score in zip(many, scores.tolist(), strict=True) if score > 0)
            found.append(kept or ((many[int(scores.argmax())],) if many else ()))
        return found

    def distances(self, options: Choice, z: Tensor) -> npt.NDArray[np.float32]:
        """Mean squared distance of each candidate's latent from z; 0 for what comes from the episode itself."""
        apart = (self.latents[torch.from_numpy(options.sources.clip(min=0))] - z).pow(2).mean(-1).cpu().numpy()
        return np.where(options.sources >= 0, apart, 0.0).astype(np.float32)

    def fit(self, numbers: Sequence[int], sampled: Sequence[Tensor], *, steps: int, epochs: int, seed: int) -> None:
        """Fit on the logged episodes `numbers`; `sampled[n]` (T, latent) holds a latent drawn for each step of n."""
        rng = random.Random(seed)
        pairs = [(n, at) for n in numbers for at in range(len(self.lore.episodes[n]))]
        chosen = set(rng.sample(pairs, min(steps, len(pairs))))
        numbers = sorted({n for n, _ in chosen})
        if self.lore.lists:
            self._fit_admissibility(self._situations(numbers, chosen), epochs, rng)
        rows = list(self._choices(numbers, chosen, sampled))
        _train(self.decoder, rows, _decoder_loss, epochs, rng)

    def situation(
        self, chronicle: Chronicle, source: Candidate | None, earlier: Sequence[str], start: Sequence[str]
    ) -> Situation:
        return Situation(chronicle, self.lore.memory.custom, source, earlier, start)

    def _situations(
        self, numbers: Sequence[int], chosen: set[tuple[int, int]]
    ) -> Iterator[tuple[list[list[int]], list[bool]]]:
        """The features and labels of the actions proposed after each chosen step."""
        for n in numbers:
            steps = self.lore.episodes[n].steps
            for chronicle, at, action, answer in self.lore.replay(n):
                after = steps[at + 1].admissible if at + 1 < len(steps) else None
                if (n, at) not in chosen or not after:
                    continue
                source = self._source(chronicle, action, answer)
                twin = chronicle.copy()
                twin.advance(action, answer)
                situation = self.situation(twin, source, steps[at].admissible or (), steps[0].admissible or ())
                asked, true = situation.proposals(self.lore.fillers), set(after)
                yield [situation.ids(one) for one in asked], [one in true for one in asked]

    def _source(self, chronicle: Chronicle, action: str, answer: str) -> Candidate | None:
        found = self.lore.memory.candidates(chronicle, action)
        return next((c for c in found if c.text == answer and c.source is not None), None)

    def _fit_admissibility(
        self, rows: Iterator[tuple[list[list[int]], list[bool]]], epochs: int, rng: random.Random
    ) -> None:
        data = [(padded_ids(ids), np.array(labels, dtype=np.float32)) for ids, labels in rows if ids]
        _train(self.admissibility, data, _admissibility_loss, epochs, rng)

    def _choices(
        self, numbers: Sequence[int], chosen: set[tuple[int, int]], sampled: Sequence[Tensor]
    ) -> Iterator[tuple[Choice, npt.NDArray[np.float32], npt.NDArray[np.float64]]]:
        """The candidates for each chosen step's answer, how far from the sampled latent, and which are right."""
        for n in numbers:
            episode = self.lore.episodes[n]
            start = episode.steps[0].admissible or ()
            for chronicle, at, action, answer in self.lore.replay(n):
                if (n, at) not in chosen:
                    continue
                earlier = episode.steps[at - 1].admissible or ()
                situation = self.situation(chronicle, None, earlier, start) if at and self.lore.lists else None
                options = choice(
                    self.lore.memory,
                    chronicle,
                    action,
                    *self.listed([situation], [episode.steps[at].admissible], [action]),
                )
                right = targets(options.candidates, answer, self.lore.memory, chronicle.goal)
                if right.any() and not right.all():
                    yield options, self.distances(options, sampled[n][at]), right


def _train(model: nn.Module, rows: Sequence[tuple[object, ...]], loss, epochs: int, rng: random.Random) -> None:  # type: ignore[no-untyped-def]
    order = list(rows)
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=_DECAY)
    total = max(1, epochs * -(-len(order) // _BATCH))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total)
    for _ in range(epochs):
        rng.shuffle(order)
        for start in range(0, len(order), _BATCH):
            optimizer.zero_grad()
            loss(model, order[start : start + _BATCH]).backward()
            optimizer.step()
            schedule.step()


def _admissibility_loss(
    model: nn.Module, rows: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]]
) -> Tensor:
    logits = model(torch.from_numpy(_stacked([ids for ids, _ in rows])))
    return F.binary_cross_entropy_with_logits(logits, torch.from_numpy(np.concatenate([labels for _, labels in rows])))


def _decoder_loss(
    model: nn.Module, rows: Sequence[tuple[Choice, npt.NDArray[np.float32], npt.NDArray[np.float64]]]
) -> Tensor:
    """Minus the log-probability that one of the right candidates is drawn."""
    scores = model(
        torch.from_numpy(_stacked([options.features for options, _, _ in rows])),
        torch.from_numpy(np.concatenate([options.near for options, _, _ in rows])),
        torch.from_numpy(np.concatenate([distance for _, distance, _ in rows])),
    )
    right = torch.from_numpy(np.concatenate([right for _, _, right in rows])) > 0
    group = torch.repeat_interleave(torch.tensor([len(options.near) for options, _, _ in rows]))
    return torch.mean(_pooled(scores, group, len(rows)) - _pooled(scores[right], group[right], len(rows)))


def _pooled(scores: Tensor, group: Tensor, n: int) -> Tensor:
    """log-sum-exp of the scores of each group."""
    top = torch.full((n,), -1e9).scatter_reduce(0, group, scores.detach(), "amax")
    return top + torch.zeros(n).scatter_add(0, group, torch.exp(scores - top[group])).log()


def _stacked(tables: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    width = max(table.shape[1] for table in tables)
    return np.concatenate([np.pad(table, ((0, 0), (0, width - table.shape[1]))) for table in tables])
