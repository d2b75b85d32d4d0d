"""The text side of a world model: what the world says, what it allows, and what an action achieved.

Puts together what was learned from the log as text (grammar, transitions, decoder, admissibility) and fits two of
them. The networks come in by the latent they sample, which the decoder weighs with everything else it knows.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from worldline.narrator.admissible import Admissibility, Relations, Situation
from worldline.narrator.decoder import Choice, Decoder, choice
from worldline.narrator.history import History
from worldline.narrator.linear import Rows, fit_hashed, stacked
from worldline.narrator.log_model import Exercises, LogModel
from worldline.narrator.retrieval import REFUSED, SAME, SHAPE, CandidateAnswer

_EPOCHS = 6
_UNSURE = "?"
_NOT_OFFERED = ("no", "no 0")
_EXACT = "donot_use_mm_for_euclid_dist"
_RARE = 0.05
"""A sort of answer (an outline) less likely than this is not drawn."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the world says, where that comes from, and how far its latent is from the one that was sampled."""

    text: str
    candidate: CandidateAnswer | None
    distance: float = 0.0
    refused: bool = False
    """Nothing changes: the world says so as it only ever refuses, or was never seen to do what it does not offer."""

    @property
    def valid(self) -> bool:
        source = self.candidate.source if self.candidate is not None else None
        return not self.refused and (source is None or source.valid)

    @property
    def supported(self) -> bool:
        """Whether the log has seen this sort of thing: neither made up nor carried over from other kinds of things."""
        return self.candidate is not None and self.candidate.near != SHAPE


@dataclass(frozen=True, slots=True)
class StepQuery:
    """An action done in an episode; `draw` in [0, 1) decides among the possible answers."""

    history: History
    action: str
    listed: str
    draw: float


def _drawn(
    question: StepQuery,
    options: Choice,
    distance: npt.NDArray[np.float32],
    scores: Tensor,
    refusals: Collection[str],
) -> Answer:
    if not options.candidates:
        return Answer(question.history.observation, None, float("inf"))
    chances = scores.softmax(0).numpy()
    # A world has habits: a sort of answer that is very unlikely here is the model's doubt, not the world's.
    sorts: dict[str, float] = defaultdict(float)
    outlines = [question.history.grammar.outline(candidate.text) for candidate in options.candidates]
    for outline, chance in zip(outlines, chances, strict=True):
        sorts[outline] += float(chance)
    least = min(_RARE, max(sorts.values()))
    mass = np.where([sorts[outline] >= least for outline in outlines], chances, 0.0).cumsum()
    at = min(int(np.searchsorted(mass, question.draw * mass[-1], side="right")), len(mass) - 1)
    return Answer(options.candidates[at].text, options.candidates[at], float(distance[at]), outlines[at] in refusals)


class Narrator(nn.Module):
    """Decoder and admissibility over the texts of a log, with the latent of every logged answer."""

    latents: Tensor

    def __init__(self, log_model: LogModel, latent: int) -> None:
        super().__init__()
        self.log_model = log_model
        self.decoder = Decoder()
        self.admissibility = Admissibility()
        self.register_buffer("latents", torch.zeros(len(log_model.index.transitions), latent))

    def listed(
        self, situations: Sequence[Situation | None], offers: Sequence[Sequence[str] | None], actions: Sequence[str]
    ) -> list[str]:
        """Whether the world offers each action; where it does not, how unlikely that was (it may be our mistake)."""
        offered = [action in (offer or ()) for offer, action in zip(offers, actions, strict=True)]
        doubts = [
            None if situation is None or listed else situation.relations(action)
            for situation, listed, action in zip(situations, offered, actions, strict=True)
        ]
        return self._offers(offered, doubts)

    def _offers(self, offered: Sequence[bool], doubts: Sequence[Relations | None]) -> list[str]:
        if not self.log_model.lists:
            return [_UNSURE] * len(offered)
        offers = ["yes" if listed else "no" for listed in offered]
        doubtful = [(at, relations) for at, relations in enumerate(doubts) if relations is not None]
        logits = self.admissibility.judged([relations for _, relations in doubtful])
        for (at, _), chance in zip(doubtful, torch.tensor(logits).sigmoid().tolist(), strict=True):
            offers[at] = f"no {min(int(chance * 5), 4)}"
        return offers

    @torch.no_grad()
    def answers(self, questions: Sequence[StepQuery], z: Tensor) -> list[Answer]:
        """Draw the answer to each question by inverse CDF at its draw; `z` (n, latent) are the sampled latents."""
        refused = [self._refusal(question) for question in questions]
        open_questions = [at for at, no in enumerate(refused) if no is None]
        answers = iter(self._answers([questions[at] for at in open_questions], z[open_questions]))
        return [next(answers) if no is None else no for no in refused]

    def _refusal(self, question: StepQuery) -> Answer | None:
        """Where the world was never seen to do what it had not listed: that it will not do this; None: it may."""
        history, log_model = question.history, self.log_model
        if log_model.only_listed_actions and question.listed in _NOT_OFFERED:
            return Answer(history.observation, None, float("inf"), refused=True)
        if (
            not question.listed.startswith("no")
            or log_model.grammar.parse(question.action).template not in log_model.always_refused
        ):
            return None
        candidates = log_model.index.candidates(history, question.action)
        refusal = next((candidate for candidate in candidates if candidate.near == REFUSED), None)
        if refusal is None or any(candidate.done for candidate in candidates):
            return None
        return Answer(refusal.text, refusal, refused=history.grammar.outline(refusal.text) in log_model.refusals)

    def _answers(self, questions: Sequence[StepQuery], z: Tensor) -> list[Answer]:
        options = [choice(self.log_model.index, q.history, q.action) for q in questions]
        near = [self.distances(one, latent) for one, latent in zip(options, z.cpu(), strict=True)]
        if not any(one.candidates for one in options):
            return [Answer(q.history.observation, None, float("inf")) for q in questions]
        scores = self.decoder(
            torch.from_numpy(stacked([one.described(q.listed) for one, q in zip(options, questions, strict=True)])),
            torch.from_numpy(np.concatenate([one.near for one in options])),
            torch.from_numpy(np.concatenate(near)),
        ).double()
        parts = torch.split(scores, [len(one.candidates) for one in options])
        return [_drawn(*one, self.log_model.refusals) for one in zip(questions, options, near, parts, strict=True)]

    def nearest(self, histories: Sequence[History], actions: Sequence[str], z: Tensor) -> list[Answer]:
        """The logged answers with latents nearest to `z` (n, latent), of the same action or at least the same template.

        An episode of the log is not answered by itself.
        """
        alike: dict[tuple[str, int], list[int]] = defaultdict(list)
        for at, (history, action) in enumerate(zip(histories, actions, strict=True)):
            alike[action, history.episode].append(at)
        answers: dict[int, Answer] = {}
        for (action, episode), places in alike.items():
            rows = torch.from_numpy(self.log_model.index.like(action, episode))
            if not len(rows):
                answers |= {at: Answer(histories[at].observation, None, float("inf")) for at in places}
                continue
            apart = torch.cdist(z[places], self.latents[rows], compute_mode=_EXACT).pow(2) / z.shape[-1]
            for at, best, distance in zip(places, rows[apart.argmin(1)].tolist(), apart.amin(1).tolist(), strict=True):
                answers[at] = replace(self.copied(best), distance=distance)
        return [answers[at] for at in range(len(actions))]

    def copied(self, index: int) -> Answer:
        """A logged answer as it stands."""
        source = self.log_model.index.transitions[index]
        return Answer(source.answer, CandidateAnswer(SAME, source.answer, source))

    def allowed(self, situations: Sequence[Situation]) -> list[tuple[str, ...]]:
        """The actions more likely listed than not in each situation; where none is, the likeliest one."""
        proposals = [situation.proposals(self.log_model.fillers) for situation in situations]
        relations = [
            situation.relations(one) for situation, many in zip(situations, proposals, strict=True) for one in many
        ]
        logits = iter(self.admissibility.judged(relations))
        allowed = []
        for many in proposals:
            scores = list(itertools.islice(logits, len(many)))
            kept = tuple([action for action, score in zip(many, scores, strict=True) if score > 0])
            allowed.append(kept or ((many[scores.index(max(scores))],) if many else ()))
        if self.log_model.sorts:
            return allowed
        return [situation.ordered(kept) for situation, kept in zip(situations, allowed, strict=True)]

    def distances(self, options: Choice, z: Tensor) -> npt.NDArray[np.float32]:
        """Mean squared distance of each candidate's latent from z; 0 for what comes from the episode itself."""
        apart = (self.latents[torch.from_numpy(options.sources.clip(min=0))] - z).pow(2).mean(-1).cpu().numpy()
        return np.where(options.sources >= 0, apart, 0.0).astype(np.float32)

    def fit(self, exercises: Exercises, numbers: Collection[int], sampled: Sequence[Tensor], *, seed: int) -> None:
        """Fit on the logged episodes `numbers`; `sampled[n]` (T, latent) holds a latent drawn for each step of n."""
        apart = set(numbers)
        offered = [one for one in exercises.offered if one.episode in apart]
        if offered:
            rows = Rows.of([one.ids for one in offered], [one.listed for one in offered])
            fit_hashed(self.admissibility, rows, self._admissibility_loss, epochs=_EPOCHS, seed=seed)
            self.admissibility.forget()
        answered = [one for one in exercises.answered if one.episode in apart]
        if answered:
            listed = self._offers([one.offered for one in answered], [one.doubt for one in answered])
            rows = Rows.of(
                [one.options.described(offer) for one, offer in zip(answered, listed, strict=True)],
                [one.options.near for one in answered],
                [self.distances(one.options, sampled[one.episode][one.step]) for one in answered],
                [one.right for one in answered],
            )
            fit_hashed(self.decoder, rows, self._decoder_loss, epochs=_EPOCHS, seed=seed)

    def _admissibility_loss(self, features: Tensor, group: Tensor, columns: tuple[Tensor, ...]) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.admissibility(features), columns[0])

    def _decoder_loss(self, features: Tensor, group: Tensor, columns: tuple[Tensor, ...]) -> Tensor:
        """Minus the log-probability that one of the right candidates is drawn."""
        near, distance, right = columns
        scores, n = self.decoder(features, near, distance), int(group[-1]) + 1
        return torch.mean(_pooled(scores, group, n) - _pooled(scores[right], group[right], n))


def _pooled(scores: Tensor, group: Tensor, n: int) -> Tensor:
    """log-sum-exp of the scores of each group."""
    top = torch.full((n,), -1e9).scatter_reduce(0, group, scores.detach(), "amax")
    return top + torch.zeros(n).scatter_add(0, group, torch.exp(scores - top[group])).log()
