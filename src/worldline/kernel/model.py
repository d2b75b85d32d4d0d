"""The kernel world model: what a world answers, pays and lists, p(o', r, end, list | h, a), learned from a log's texts.

Candidates are answers of logged steps, adapted to this one; a learned gate weighs them, with a log-linear model of how
the world words its answers, and expectations from all that was done and heard, among its features; an outcome model
and a list model say what follows. Nothing in here knows a word of any world. Fitting is in `fitting`, playing in
`adwm.kernel_env`. Left out: networks over histories.
"""

import functools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from worldline.kernel.answers import KernelAnswer, StepRequest
from worldline.kernel.blend import Blend
from worldline.kernel.candidates import KINDS, Candidates, candidates
from worldline.kernel.compared_rows import pool
from worldline.kernel.edits import EditRules
from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.expectations import TARGETS, Expectations
from worldline.kernel.features import FORECAST, LIKELIHOODS, NAMES, SHARED_FACTS, WORDING, Features, Seen, features
from worldline.kernel.fillings import Fillings
from worldline.kernel.forecast import Forecast
from worldline.kernel.gate import Gate
from worldline.kernel.language import code
from worldline.kernel.lists import ListModel, items
from worldline.kernel.number_model import NumberModel
from worldline.kernel.outcome import OutcomeModel, Votes, outcome_of, reward_wording
from worldline.kernel.outcome_classes import StepOutcome
from worldline.kernel.outcome_features import forecast_features, last_numbers, outcome_features, recurring_sentences
from worldline.kernel.step_table import COLUMN, LeftOut, StepTable, fold_of
from worldline.kernel.wordings import TaskBids, TaskPairs, WordingModel, Wordings, wordings
from worldline.types import Trajectory

Chances = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Considered:
    """The candidates of one step, described."""

    step: StepDescription
    candidates: Candidates
    features: Features
    """All of NAMES but for the last four, which are for the wording model and the forecast to say."""
    wordings: Wordings
    before: npt.NDArray[np.int64]
    """What the forecast reads."""
    outcomes: npt.NDArray[np.int64]
    """The class of the outcome that each candidate brings."""


FEATURES = 16
"""Raised where a step is described differently: weights that were fitted before are of other features."""


@dataclass(frozen=True)
class _Question:
    """A step of an episode, described, that is to be answered. Rows `left_out` (N,) do not answer."""

    state: EpisodeState
    step: StepDescription
    turn: int
    own: int
    left_out: LeftOut


class KernelModel(nn.Module):
    """All that is learned of a log."""

    expects: Tensor
    """Whether expectations are worth their price: held-out steps say so."""
    shares: Tensor
    """Whether shared facts tell anything: held-out steps say so, too."""

    def __init__(self, episodes: Sequence[Trajectory]) -> None:
        super().__init__()
        self.log = StepTable.of(episodes)
        self.seen = Seen(self.log)
        self.task_bids, self.task_pairs = TaskBids(self.log), TaskPairs(self.log)
        self.numbers = NumberModel(self.log)
        self.rules = EditRules(self.log.language.phrasing)
        for number, episode in enumerate(episodes):
            actions = [step.action for step in episode.steps]
            self.rules.learn(number, actions, episode.next_observations, episode.steps[0].observation)
        self.lists = any(row.listed is not None for row in self.log.rows)
        self.sorts = all(list(row.listed or ()) == sorted(row.listed or ()) for row in self.log.rows)
        lists = [(row.episode, episodes[row.episode].task_id, row.listed or ()) for row in self.log.rows]
        self.fillings = Fillings(self.log.language.phrasing, lists, [row.action for row in self.log.rows])
        self.wording_model = WordingModel()
        self.gate = Gate(len(NAMES), LIKELIHOODS)
        self.blend, self.outcome_blend = Blend(), Blend()
        self.outcomes = OutcomeModel(self.log.rows, self.log.happenings)
        self.recurring = recurring_sentences(self.log.rows, self.log.phrases)
        self._row_outcomes = [outcome_of(row) for row in self.log.rows]
        self._row_classes = np.array([self.outcomes.classes.number(one) for one in self._row_outcomes])
        self.forecast = Forecast(len(self.outcomes.classes))
        self.list_model = ListModel()
        self.register_buffer("expects", torch.tensor(True))
        self.register_buffer("shares", torch.tensor(True))
        self._learn_reward_rules()

    def _learn_reward_rules(self) -> None:
        """Rewards of many values may follow numbers in the text; of few values, each is a class."""
        if self.outcomes.classes.few:
            return
        seen = []
        for number in range(len(self.log.episodes)):
            for state, step, row in self.log.replay(number):
                seen.append((reward_wording(step, row.answer), last_numbers(state, row.action, row.answer), row.reward))
        self.outcomes.rules.fit(seen)

    def consider(
        self,
        state: EpisodeState,
        action: str,
        *,
        turn: int = 0,
        own: int = -1,
        without_policy: bool = False,
        as_new: bool = False,
    ) -> Considered:
        """What may be answered to an action, described.

        `own` is the logged episode it belongs to, -1: none. Its record is left out, or all of its policy's; `as_new`,
        also every step of the task with this action, where a like-worded one is left: a new policy does what nobody in
        the log has done.
        """
        step = state.describe(action)
        left_out = self._left_out(step, own, without_policy, as_new) if own >= 0 else None
        return self._consider_all([_Question(state, step, turn, own, left_out)])[0]

    def _left_out(
        self, step: StepDescription, own: int, without_policy: bool = False, as_new: bool = False
    ) -> npt.NDArray[np.bool_]:
        left_out: npt.NDArray[np.bool_] = self.log.episode_of == own
        if without_policy:
            of_policy = self.log.policy_of == self.log.policy_of[self.log.first_row[own]]
            left_out = left_out if of_policy.all() else of_policy
        if as_new:
            done = left_out | (self.log.codes == step.codes)[:, [COLUMN["task"], COLUMN["action"]]].all(1)
            like_worded = self.log.skeletons == code(step.phrase.skeleton)
            left_out = done if (like_worded & ~done).any() else left_out
        return left_out

    def _consider_all(self, questions: Sequence[_Question]) -> list[Considered]:
        """One thing after the other for all of them: a processor does what it has just done faster."""
        records = [self.log.records(one.state, one.left_out, one.own) for one in questions]
        compared = [
            pool(self.log, one.state, one.step, one.turn, record, one.left_out)
            for one, record in zip(questions, records, strict=True)
        ]
        numbers = [
            self.numbers.at(one.step.phrase.skeleton, one.step.action, one.state.readings, one.own) for one in questions
        ]
        possible = [
            candidates(self.log, self.rules, one.state, one.step, rows, computed, one.own)
            for one, rows, computed in zip(questions, compared, numbers, strict=True)
        ]
        described = [
            np.concatenate(
                [
                    features(self.seen, one.state, one.step, rows, may_be, computed, record, one.left_out),
                    self._expected(one, may_be),
                ],
                1,
            )
            for one, rows, may_be, computed, record in zip(questions, compared, possible, numbers, records, strict=True)
        ]
        if not self.shares:
            for one in described:
                one[:, SHARED_FACTS] = 0.0
        worded = [self._wordings(one, may_be) for one, may_be in zip(questions, possible, strict=True)]
        return [
            Considered(one.step, may_be, of, sorts, self._before(one), self._outcome_classes(one.state, may_be))
            for one, may_be, of, sorts in zip(questions, possible, described, worded, strict=True)
        ]

    def _before(self, one: _Question) -> npt.NDArray[np.int64]:
        return forecast_features(one.state, one.step, levels=not self.outcomes.classes.few)

    def _outcome_classes(self, state: EpisodeState, possible: Candidates) -> npt.NDArray[np.int64]:
        """A step of this episode has not ended it."""
        out: npt.NDArray[np.int64] = self._row_classes[np.maximum(possible.rows, 0)]
        for at in np.flatnonzero(possible.rows < 0):
            here = StepOutcome(round(state.rewards[-1 - possible.rows[at]], 6), False, False)
            out[at] = self.outcomes.classes.nearest(here)
        return out

    @functools.cached_property
    def expectations(self) -> Expectations:
        return Expectations(self.log)

    def _expected(self, one: _Question, possible: Candidates) -> Features:
        if not self.expects:
            return np.zeros((len(possible), len(TARGETS)), np.float32)
        earned = [
            self.log.rows[row].reward if row >= 0 else one.state.rewards[-1 - row] for row in possible.rows.tolist()
        ]
        return self.expectations.log_ratios(one.state, one.step, possible.texts, earned, one.own)

    def _wordings(self, one: _Question, possible: Candidates) -> Wordings:
        state, phrase = one.state, one.step.phrase
        pairs = self.task_pairs.of(state.task, phrase.skeleton, one.left_out)
        is_bid = state.bids.about(phrase, one.step.action) is not None
        bids = self.task_bids.of(state.task, one.left_out) if is_bid else {}
        return wordings(state, one.step, possible, bids, pairs)

    def described(self, considered: Considered, own: int = -1) -> Features:
        """The features of the candidates with what the wording model and the forecast say of them."""
        fold = fold_of(own) if own >= 0 else -1
        log_chances = self.wording_model.log_chances(considered.wordings, fold)
        of, classes = considered.wordings.of, considered.outcomes
        forecast = self.forecast.log_chances(considered.before, fold)[classes]
        more: list[npt.NDArray[np.floating]] = [_log_shares(classes), forecast, _log_shares(of), log_chances]
        return np.concatenate([considered.features, np.stack(more, 1).astype(np.float32)], 1)

    def weighed(self, considered: Sequence[Considered], described: Sequence[Features]) -> list[Chances]:
        """The probabilities of the candidates of some steps, with their features."""
        weighed = self.gate.chances(np.concatenate(described), [len(one) for one in described])
        out = []
        for one, of, chances in zip(considered, described, weighed, strict=True):
            blended = self.blend.chances(chances, one.wordings.of, of[:, WORDING].astype(np.float64))
            out.append(self.outcome_blend.chances(blended, one.outcomes, of[:, FORECAST].astype(np.float64)))
        return out

    def answer(self, requests: Sequence[StepRequest]) -> list[KernelAnswer]:
        """Draw an answer to each request, all weighed in one batch."""
        considered = self.consider_requests(requests)
        weighed = self.request_chances(requests, considered)
        return [self.drawn(*one) for one in zip(requests, considered, weighed, strict=True)]

    def consider_requests(self, requests: Sequence[StepRequest]) -> list[Considered]:
        """What may be answered to some requests."""
        steps = [request.state.describe(request.action) for request in requests]
        return self._consider_all(
            [
                _Question(one.state, step, one.turn, one.own, self._left_out(step, one.own) if one.own >= 0 else None)
                for one, step in zip(requests, steps, strict=True)
            ]
        )

    def request_chances(self, requests: Sequence[StepRequest], considered: Sequence[Considered]) -> list[Chances]:
        """The probabilities of the candidates of some requests."""
        described = [self.described(one, request.own) for request, one in zip(requests, considered, strict=True)]
        return self.weighed(considered, described)

    def drawn(self, request: StepRequest, considered: Considered, chances: Chances) -> KernelAnswer:
        """One of the candidates, drawn by these chances, and what follows it."""
        possible = considered.candidates
        at = draw(chances, request.draw)
        return self.followed(request, considered, chances, possible.texts[at], KINDS[possible.kinds[at]])

    def followed(
        self,
        request: StepRequest,
        considered: Considered,
        chances: Chances,
        text: str,
        kind: str,
        outcome: StepOutcome | None = None,
    ) -> KernelAnswer:
        """What follows an answer: outcome, unless it is given, and list.

        The candidates of its text vote; where there is none, all do.
        """
        state, step, possible = request.state, considered.step, considered.candidates
        mass = np.where([other == text for other in possible.texts], chances, 0.0)
        within = mass / mass.sum() if mass.any() else chances
        happening = state.happening(step, text)
        votes = self.votes(state.rewards, possible, within, happening)
        described = self.outcome_features(state, step, text)
        outcomes, likely = self.outcomes.chances(described, votes, happening, request.own)
        if not self.outcomes.classes.few:
            ruled = self.outcomes.rules.reward(reward_wording(step, text), last_numbers(state, step.action, text))
            if ruled is None:
                ruled = self.numbers.reward(step.phrase.skeleton, step.action, state.readings, text, request.own)
            outcomes = outcomes if ruled is None else tuple(one._replace(reward=ruled) for one in outcomes)
        outcome = outcome or outcomes[draw(likely, request.outcome_draw)]
        listed: tuple[str, ...] | None = state.listed
        log_odds: dict[str, float] = {}
        if self.lists and not outcome.ended:
            listed, log_odds = self._listed(request, step, text, possible, chances)
        hazard = float(likely @ [one.ended for one in outcomes])
        mean_reward = float(likely @ [one.reward for one in outcomes])
        return KernelAnswer(text, outcome, listed, log_odds, step, kind, hazard, mean_reward)

    def outcome_features(self, state: EpisodeState, step: StepDescription, answer: str) -> npt.NDArray[np.int64]:
        """What the outcome of a step may depend on."""
        return outcome_features(state, step, answer, self.recurring, levels=not self.outcomes.classes.few)

    def votes(self, rewards: Sequence[float], possible: Candidates, within: Chances, happening: str) -> Votes:
        """What the sources of an answer say of its outcome.

        `rewards` are those of this episode so far; `within` sums to one over the candidates that count.
        """
        logged = np.where(possible.rows >= 0, within, 0.0)
        if logged.any():  # an earlier step of this episode cannot have ended it: it has no vote where others have one
            within = logged / logged.sum()
        total = 1.0 / max(float(np.square(within).sum()), 1e-9)
        votes = Votes(defaultdict(float), defaultdict(float))
        for row, share in zip(possible.rows.tolist(), within.tolist(), strict=True):
            if share > 0:
                here = StepOutcome(round(rewards[-1 - row], 6), False, False) if row < 0 else self._row_outcomes[row]
                like = row < 0 or self.log.happenings[row] == happening
                (votes.like if like else votes.other)[here] += total * share
        return votes

    def _listed(
        self, request: StepRequest, step: StepDescription, text: str, possible: Candidates, chances: Chances
    ) -> tuple[tuple[str, ...] | None, dict[str, float]]:
        may_be = items(self.log, self.fillings, self.numbers, request.state, step, text, possible, chances, request.own)
        if may_be is None or not may_be.ids.size:
            return request.state.listed, {}
        scores = self.list_model.log_odds(may_be.ids)
        log_odds = dict(zip(may_be.actions, scores.tolist(), strict=True))
        kept = [action for action in may_be.actions if log_odds[action] > 0] or [may_be.actions[int(scores.argmax())]]
        return tuple(sorted(kept) if self.sorts else kept), log_odds


def _log_shares(numbers: npt.NDArray[np.int64]) -> Chances:
    """Of each candidate, how many have its number."""
    out: Chances = np.log(np.bincount(numbers)[numbers] / len(numbers))
    return out


def draw(chances: Chances, at: float) -> int:
    """A number drawn by inverse CDF; `at` is in [0, 1)."""
    mass = np.cumsum(chances)
    return min(int(np.searchsorted(mass, at * mass[-1], side="right")), len(chances) - 1)
