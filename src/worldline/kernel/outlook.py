"""Which sort of answer a step gets, from a summary of the episode: networks over its numbers, counts and wordings.

Similar steps say what may be answered; how likely each sort of it is may depend on what few of them share: the third
refusal, a bid of half the price, a sum so far. A sort is a frequent wording with what it earns and whether it ends the
episode; the rest differ by that alone. Each network is fitted without some of the policies, and says of their
steps what it would say of a new policy's; a new step is judged by all. `blend` learns how far they are right.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.language import first_number, wording
from worldline.kernel.outcome import outcome_of
from worldline.kernel.outcome_classes import MOST_CLASSES, StepOutcome
from worldline.kernel.step_table import StepTable
from worldline.kernel.words import stable_hash

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
NETWORKS, HIDDEN = 3, 16
SORTS, RAREST = 16, 0.01
"""Frequent wordings that are sorts of their own, and the share of the steps that such a wording has at least."""
COLUMNS = {"action": 8, "event": 6, "shown": 12, "after": 8, "heard": 10, "did": 8}
"""What is counted in a summary, and how many of the most frequent of each are read."""
NUMBERS = 15
_SHOWN = 3
"""Numbers of the observation that are read."""
_BOUND = 3.0
_STEPS, _BATCH, _RATE, _DECAY, _EVERY = 300, 512, 1e-2, 2e-3, 10
_MOST = MOST_CLASSES + SORTS
_NEVER = -30.0


@dataclass(frozen=True, slots=True)
class Summary:
    """An episode before a step: numbers (NUMBERS,), nan where there is none, and how often what was counted occurs."""

    numbers: tuple[float, ...]
    counts: dict[tuple[str, str], float]


def summary(state: EpisodeState, step: StepDescription) -> Summary:
    """What the networks read of an episode and its next action."""
    action, event = step.action, state.event(step.action)
    texts = state.language.observations
    shown = [*texts.numbers(texts.id(state.observation))[:_SHOWN].tolist(), *[np.nan] * _SHOWN][:_SHOWN]
    number, last, start, bid = first_number(action), state.last_number, state.first_number, state.last_bid
    at = state.step
    numbers = (
        *shown,
        np.nan if number is None else number,
        np.nan if last is None else last,
        _ratio(number, last),
        _ratio(number, start),
        _ratio(number, bid),
        _ratio(last, start),
        float(at),
        np.log1p(at),
        np.log1p(state.event_counts[event]),
        np.log1p(state.action_counts[action]),
        sum(state.rewards),
        state.rewards[-1] if state.rewards else 0.0,
    )
    counts = {
        ("action", action): 1.0,
        ("event", event): 1.0,
        ("shown", wording(state.observation, step.phrase)): 1.0,
        ("after", state.actions[-1] if state.actions else ""): 1.0,
    }
    counts |= {("heard", text): min(times, 4) / 2 for text, times in state.heard.items()}
    counts |= {("did", other): min(times, 4) / 2 for other, times in state.action_counts.items()}
    return Summary(numbers, counts)


def _ratio(number: float | None, other: float | None) -> float:
    return number / other if number is not None and other else float("nan")


@dataclass(frozen=True)
class Prospects:
    """A step: its summary, and the sort of each of its candidates."""

    summary: Summary
    sorts: Ids
    group: int
    """The network that has not seen the policy of the step; -1: it is nobody's of the log."""


@dataclass(frozen=True)
class OutlookExercise:
    """A logged step: what was answered is of sort `right`."""

    episode: int
    prospects: Prospects
    right: int
    weight: float


class Outlook(nn.Module):
    """log p(sort of answer | summary of the episode, action)."""

    columns: Tensor
    mean: Tensor
    scale: Tensor
    hidden: Tensor
    bias: Tensor
    out: Tensor
    linear: Tensor
    base: Tensor

    def __init__(self, log: StepTable) -> None:
        super().__init__()
        outcomes = [outcome_of(row) for row in log.rows]
        self._few = len(set(outcomes)) <= MOST_CLASSES
        ended = [one.reward for one in outcomes if one.ended] or [0.0]
        self._quartiles = np.quantile(ended, [0.25, 0.5, 0.75])
        kinds = Counter(self._kind(one) for one in outcomes)
        self._kinds = {kind: at for at, (kind, _) in enumerate(kinds.most_common())}
        self._of_row = np.array([self._kinds[self._kind(one)] for one in outcomes])
        self._frequent = self._frequent_sorts(log)
        groups = log.policy_of[log.first_row]
        several = len(np.unique(groups)) > 1
        self._groups = groups % NETWORKS if several else np.arange(len(groups)) % NETWORKS
        width, size = 2 * NUMBERS + sum(COLUMNS.values()), _MOST
        self.register_buffer("columns", torch.zeros(sum(COLUMNS.values()), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(NUMBERS))
        self.register_buffer("scale", torch.ones(NUMBERS))
        self.register_buffer("hidden", torch.zeros(NETWORKS, width, HIDDEN))
        self.register_buffer("bias", torch.zeros(NETWORKS, HIDDEN))
        self.register_buffer("out", torch.zeros(NETWORKS, HIDDEN, size))
        self.register_buffer("linear", torch.zeros(NETWORKS, width, size))
        self.register_buffer("base", torch.zeros(NETWORKS, size))

    def _kind(self, outcome: StepOutcome) -> tuple[float, bool, bool]:
        """An outcome; where there are many, only in which quarter of the last rewards it lies."""
        if self._few:
            return outcome
        reward = float(np.searchsorted(self._quartiles, outcome.reward)) if outcome.ended else float(outcome.reward > 0)
        return reward, outcome.ended, outcome.success

    def _frequent_sorts(self, log: StepTable) -> dict[tuple[int, str], int]:
        counts = Counter(
            (kind, log.language.sort(row.answer, phrase))
            for kind, row, phrase in zip(self._of_row.tolist(), log.rows, log.phrases, strict=True)
        )
        frequent = [sort for sort, times in counts.most_common(SORTS) if times >= RAREST * len(log)]
        return {sort: at for at, sort in enumerate(frequent)}

    def group(self, own: int) -> int:
        """The network that has not seen the policy of a logged episode; -1 for an episode that is not logged."""
        return int(self._groups[own]) if own >= 0 else -1

    def kinds(self, rows: Ids, rewards: Sequence[float]) -> Ids:
        """The kind of outcome of rows of the log; -1 - step for a step of this episode, whose `rewards` these are."""
        out = self._of_row[np.maximum(rows, 0)]
        for at in np.flatnonzero(rows < 0).tolist():
            out[at] = self._kinds.get(self._kind(StepOutcome(rewards[-1 - int(rows[at])], False, False)), 0)
        return out

    def sorts_of(self, kinds: Ids, of: Ids, worded: Sequence[str]) -> Ids:
        """The sorts of candidates with these kinds of outcome; `of` says which of the wordings each has."""
        cells = {
            (kind, at): self._frequent.get((kind, worded[at]), SORTS + kind)
            for kind, at in set(zip(kinds.tolist(), of.tolist(), strict=True))
        }
        return np.array([cells[cell] for cell in zip(kinds.tolist(), of.tolist(), strict=True)])

    def sort_of(self, outcome: StepOutcome, worded: str) -> int:
        """The sort of an answer of this wording with an outcome that the log has."""
        kind = self._kinds[self._kind(outcome)]
        return self._frequent.get((kind, worded), SORTS + kind)

    def log_chances(self, prospects: Sequence[Prospects]) -> list[Floats]:
        """For each step, the log-probability of the sort of each candidate."""
        x = self._inputs([one.summary for one in prospects])
        scores = np.stack([self._scores(x, at).numpy() for at in range(NETWORKS)])
        out = []
        for at, one in enumerate(prospects):
            mine = scores[:, at].mean(0) if one.group < 0 else scores[one.group, at]
            mine = mine - mine.max()
            out.append((mine - np.log(np.exp(mine).sum()))[one.sorts].astype(np.float32))
        return out

    def _scores(self, x: Tensor, at: int) -> Tensor:
        return torch.tanh(x @ self.hidden[at] + self.bias[at]) @ self.out[at] + x @ self.linear[at] + self.base[at]

    def _inputs(self, many: Sequence[Summary]) -> Tensor:
        """(steps, width): numbers, which of them are missing, counts."""
        numbers = torch.tensor([one.numbers for one in many], dtype=torch.float32)
        missing = numbers.isnan()
        numbers = ((numbers - self.mean) / self.scale).clamp(-_BOUND, _BOUND).nan_to_num(0.0)
        places = {code: at for at, code in enumerate(self.columns.tolist()) if code}
        counts = np.zeros((len(many), len(self.columns)), np.float32)
        for row, one in zip(counts, many, strict=True):
            for key, count in one.counts.items():
                place = places.get(_code(*key))
                if place is not None:
                    row[place] = count
        return torch.cat([numbers, missing.float(), torch.from_numpy(counts)], 1)

    def fit(self, exercises: Sequence[OutlookExercise], held_out: frozenset[int], seed: int) -> None:
        """Fit each network without its group of policies; held-out episodes of the others decide when to stop."""
        self._learn_columns([one.prospects.summary for one in exercises])
        x = self._inputs([one.prospects.summary for one in exercises])
        y = torch.tensor([one.right for one in exercises])
        weight = torch.tensor([one.weight for one in exercises])
        group = torch.tensor([one.prospects.group for one in exercises])
        held = torch.tensor([one.episode in held_out for one in exercises])
        counts = torch.bincount(y, weights=weight.double(), minlength=_MOST).float()
        base = torch.where(counts > 0, ((counts + 0.1) / (counts + 0.1).sum()).log(), torch.tensor(_NEVER))
        self.base[:] = base
        for at in range(NETWORKS):
            training, testing = (torch.nonzero((group != at) & part)[:, 0] for part in (~held, held))
            if len(training) and len(testing):
                self._fit_one(at, (x, y, weight), training, testing, seed + at)

    def _learn_columns(self, many: Sequence[Summary]) -> None:
        numbers = np.array([one.numbers for one in many])
        real = ~np.isnan(numbers)
        filled, times = np.where(real, numbers, 0.0), np.maximum(real.sum(0), 1)
        mean = filled.sum(0) / times
        spread = np.sqrt((np.where(real, numbers - mean, 0.0) ** 2).sum(0) / times)
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(spread + 1e-6))
        seen = Counter(key for one in many for key in one.counts)
        self.columns.copy_(torch.tensor(list(_most_frequent(seen)), dtype=torch.int64))

    def _fit_one(
        self, at: int, steps: tuple[Tensor, Tensor, Tensor], training: Tensor, testing: Tensor, seed: int
    ) -> None:
        x, y, weight = steps
        generator = torch.Generator().manual_seed(seed)
        width = x.shape[1]
        first = torch.randn(width, HIDDEN, generator=generator) * width**-0.5
        parameters = [first, torch.zeros(HIDDEN), torch.zeros(HIDDEN, _MOST), torch.zeros(width, _MOST)]
        parameters = [*(one.requires_grad_() for one in parameters), self.base[at].clone().requires_grad_()]
        targets = (self.hidden, self.bias, self.out, self.linear, self.base)

        def loss(rows: Tensor) -> Tensor:
            hidden, bias, out, linear, base = parameters
            inputs = x[rows]
            scores = torch.tanh(inputs @ hidden + bias) @ out + inputs @ linear + base
            nats = F.cross_entropy(scores, y[rows], reduction="none")
            return (weight[rows] * nats).sum() / weight[rows].sum()

        optimizer = torch.optim.Adam(parameters, lr=_RATE, foreach=True)
        best = float("inf")
        for step in range(_STEPS):
            rows = training[torch.randint(len(training), (min(_BATCH, len(training)),), generator=generator)]
            optimizer.zero_grad()
            decay = 0.3 * parameters[0].square().sum() + parameters[2].square().sum() + parameters[3].square().sum()
            (loss(rows) + _DECAY * decay).backward()
            optimizer.step()
            if (step + 1) % _EVERY == 0:
                with torch.no_grad():
                    score = loss(testing).item()
                    if score < best:
                        best = score
                        for target, parameter in zip(targets, parameters, strict=True):
                            target[at] = parameter


@functools.lru_cache(maxsize=1 << 14)
def _code(*parts: str) -> int:
    return stable_hash(repr(parts)) >> 1


def _most_frequent(seen: Counter[tuple[str, str]]) -> Iterator[int]:
    """Codes of the most frequent keys of each of COLUMNS; 0 where there are fewer."""
    for name, most in COLUMNS.items():
        own = [_code(*key) for key, _ in seen.most_common() if key[0] == name][:most]
        yield from [*own, *[0] * (most - len(own))]
