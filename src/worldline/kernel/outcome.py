"""What a step earned and whether it ended the episode, given what the world answered.

The candidates with that answer vote with their sources' outcomes. Where outcomes are few (success or not, one price for
everything), a log-linear model over hashed features of action, answer, goal and history corrects the vote: it learns
what a success takes. Where rewards are many, they follow numbers in the text, if the log says so, else the source.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.language import last_number, wording
from worldline.kernel.phrases import blanked
from worldline.kernel.step_table import LoggedStep
from worldline.kernel.words import stable_hash

Array = npt.NDArray[np.float64]
MOST_CLASSES = 12
"""More different outcomes than this are not told apart by a classifier."""
BUCKETS = 1 << 13
_LONGEST = 160
"""Features of a step that are read."""
_STEPS, _BATCH, _RATE, _DECAY, _EVERY = 400, 384, 3e-2, 3e-4, 20
_FLOOR = 1e-3
"""Probability that a held-out outcome against all evidence is granted, so that one does not say where the fit stops."""
_PRIOR = 2.0
"""Votes that the outcomes of all like happenings have beside those of the candidates."""
_LEAST = 1.0
"""Happenings that the log's overall outcomes stand for among like ones."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class StepOutcome(NamedTuple):
    """What a step led to."""

    reward: float
    ended: bool
    success: bool


def outcome_of(row: LoggedStep) -> StepOutcome:
    return StepOutcome(round(row.reward, 6), row.ended, row.success)


def outcome_features(state: EpisodeState, step: StepDescription, answer: str) -> npt.NDArray[np.int64]:
    """Buckets 1..BUCKETS-1 of everything an outcome may depend on."""
    event, past = state.event(step.action), state.event_counts
    happening, happened = state.happening(step, answer), state.happened
    says = blanked(answer, step.phrase.names).lower()
    named = {word for name in step.phrase.names for word in name.lower().split()}
    left = sorted(state.goal_words - named)
    count = min(past[event], 3)
    texts = ["bias", f"event {event}", f"says {says[:90]}", f"ends {says[-25:]}", f"again {event} {count}"]
    texts += [f"says {event} {says[:60]}"]
    for relation in sorted(step.relations)[:12]:
        texts += [f"relation {relation}", f"relation {event} {relation}"]
    texts += [f"fact {event} {fact}" for fact in state.facts()]
    texts += [f"goal {event} {word}" for word in left[:16]]
    texts += [f"goal {event} {word} {count}" for word in left[:16]]
    texts += [f"before {event} {other}" for other in sorted(past)[:24]]
    texts += [f"lately {event} {state.event(other)}" for other in dict.fromkeys(state.actions[-6:])]
    texts += [f"happens again {happening} {min(happened[happening], 3)}"]
    texts += [f"goal happens {happening} {min(happened[happening], 3)} {word}" for word in left[:16]]
    return np.array([1 + stable_hash(text) % (BUCKETS - 1) for text in texts[:_LONGEST]], dtype=np.int64)


@dataclass(frozen=True)
class JudgedStep:
    """A logged step for the fit: features, the votes of its candidates, and what happened."""

    episode: int
    features: npt.NDArray[np.int64]
    votes: dict[StepOutcome, float]
    happening: str
    outcome: StepOutcome
    weight: float = 1.0


class OutcomeModel(nn.Module):
    """p(reward, end, success | history, action, answer)."""

    table: Tensor
    trust: Tensor

    def __init__(self, rows: Sequence[LoggedStep], happenings: Sequence[str]) -> None:
        super().__init__()
        counts = Counter(outcome_of(row) for row in rows)
        self.classes = tuple(sorted(counts)) if len(counts) <= MOST_CLASSES else ()
        self._index = {one: at for at, one in enumerate(self.classes)}
        share = np.array([counts[one] for one in self.classes], dtype=np.float64)
        self._share = share / max(share.sum(), 1)
        self._like: dict[str, Array] = defaultdict(lambda: np.zeros(len(self.classes)))
        """Of each happening, how often it had each outcome."""
        for row, happening in zip(rows, happenings, strict=True):
            if self.classes:
                self._like[happening][self._index[outcome_of(row)]] += 1
        self.register_buffer("table", torch.zeros(BUCKETS, max(1, len(self.classes))))
        self.register_buffer("trust", torch.tensor(1.0))
        self.rules = RewardRules()

    def prior(self, votes: dict[StepOutcome, float], happening: str, own: StepOutcome | None = None) -> Array:
        """log-probabilities of the classes by votes and by like happenings, one with the outcome `own` left out."""
        like = _LEAST * self._share
        if happening in self._like:
            like = like + self._like[happening]
            if own is not None:
                like[self._index[own]] -= 1
        counted = _PRIOR * like / like.sum() + [votes.get(one, 0.0) for one in self.classes] + 1e-6
        out: Array = np.log(counted / counted.sum())
        return out

    def chances(
        self, features: npt.NDArray[np.int64], votes: dict[StepOutcome, float], happening: str
    ) -> tuple[tuple[StepOutcome, ...], Array]:
        """The possible outcomes and their probabilities."""
        if len(self.classes) < 2:
            total = sum(votes.values())
            return tuple(votes), np.array([vote / total for vote in votes.values()])
        logits = float(self.trust) * self.prior(votes, happening) + self.table.numpy()[features].sum(0)
        weights = np.exp(logits - logits.max())
        return self.classes, weights / weights.sum()

    def fit(self, steps: Sequence[JudgedStep], held_out: frozenset[int], seed: int) -> dict[str, float]:
        """Fit the correction where there are classes; held-out nats per step of the votes alone and corrected."""
        if len(self.classes) < 2 or not any(one.episode in held_out for one in steps):
            return {}
        widest = max(len(one.features) for one in steps)
        table = np.zeros((len(steps), widest), np.int64)
        for row, one in zip(table, steps, strict=True):
            row[: len(one.features)] = one.features
        used, ids = np.unique(table, return_inverse=True)  # bucket 0, for no feature, comes first
        x = torch.from_numpy(ids.reshape(table.shape))
        prior = torch.from_numpy(np.stack([self.prior(one.votes, one.happening, one.outcome) for one in steps])).float()
        y = torch.tensor([self._index[one.outcome] for one in steps])
        weight = torch.tensor([one.weight for one in steps])
        training = torch.tensor([at for at, one in enumerate(steps) if one.episode not in held_out])
        testing = torch.tensor([at for at, one in enumerate(steps) if one.episode in held_out])
        weights = torch.zeros(len(used), len(self.classes), requires_grad=True)
        trust = torch.ones((), requires_grad=True)
        real = (torch.arange(len(used)) > 0).float()[:, None]

        def loss(rows: Tensor, floor: float = 0.0) -> Tensor:
            logits = trust * prior[rows] + (weights * real)[x[rows]].sum(1)
            right = logits.log_softmax(1).gather(1, y[rows, None])[:, 0]
            nats = -torch.log((1 - floor) * right.exp() + floor) if floor else -right
            return (weight[rows] * nats).sum() / weight[rows].sum()

        generator = torch.Generator().manual_seed(seed)
        optimizer = torch.optim.Adam([weights, trust], lr=_RATE)
        with torch.no_grad():
            best = by_votes = loss(testing, _FLOOR).item()
        for step in range(_STEPS):
            rows = training[torch.randint(len(training), (min(_BATCH, len(training)),), generator=generator)]
            optimizer.zero_grad()
            (loss(rows) + _DECAY * weights.square().sum()).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimizer.step()
            if (step + 1) % _EVERY == 0:
                with torch.no_grad():
                    score = loss(testing, _FLOOR).item()
                    if score < best:
                        best = score
                        self.table[torch.from_numpy(used)] = weights * real
                        self.trust.copy_(trust)
        return {"outcome nats by votes": by_votes, "outcome nats": best}


def last_numbers(state: EpisodeState, action: str, answer: str) -> Array:
    """The numbers a reward may follow: of the action, the answer, the last observation and action that named any."""
    numbers = last_number(action), last_number(answer), state.last_number, state.last_bid
    return np.array([1.0, *(0.0 if number is None else number for number in numbers)])


class RewardRules:
    """Rewards that are a linear function of numbers in the text, by the wording of action and answer."""

    FEWEST, ACCURATE = 12, 0.25
    """Steps of a wording that a rule needs; its leave-one-out error relative to the spread of the rewards."""

    def __init__(self) -> None:
        self._rules: dict[str, Array] = {}

    def fit(self, seen: Sequence[tuple[str, Array, float]]) -> None:
        """From (wording, numbers, reward) of every logged step."""
        groups: dict[str, list[tuple[Array, float]]] = defaultdict(list)
        for worded, numbers, reward in seen:
            groups[worded].append((numbers, reward))
        for worded, members in groups.items():
            rewards = np.array([reward for _, reward in members])
            if len(members) < self.FEWEST or rewards.std() < 1e-9 or len(set(rewards.tolist())) <= 3:
                continue
            x = np.stack([numbers for numbers, _ in members])
            gram = np.linalg.pinv(x.T @ x + 1e-6 * np.eye(x.shape[1]))
            weights = gram @ x.T @ rewards
            leverage = np.clip(np.einsum("ij,jk,ik->i", x, gram, x), 0, 0.99)
            errors = (rewards - x @ weights) / (1 - leverage)
            if np.sqrt(np.mean(errors**2)) < self.ACCURATE * rewards.std():
                self._rules[worded] = weights

    def reward(self, worded: str, numbers: Array) -> float | None:
        """The reward by the rule of this wording; None where there is none."""
        weights = self._rules.get(worded)
        return None if weights is None else float(numbers @ weights)


def reward_wording(step: StepDescription, answer: str) -> str:
    """Action and answer without their numbers and names."""
    return f"{_NUMBER.sub('#', step.phrase.skeleton)} > {wording(answer, step.phrase)}"
