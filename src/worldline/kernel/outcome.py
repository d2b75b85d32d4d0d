"""What a step earned and whether it ended the episode, given what the world answered.

The candidates with that answer vote with their sources' outcomes, and a log-linear model over hashed features of
observation, action, answer, goal and history corrects the vote: it learns what a success takes. Of many outcomes it
says the class; within it the votes decide. Rewards of many values follow numbers in the text where the log says so.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax
from torch import Tensor, nn

from worldline.kernel.episode_state import StepDescription
from worldline.kernel.language import wording
from worldline.kernel.numerals import NUMBER
from worldline.kernel.outcome_classes import OutcomeClasses, StepOutcome
from worldline.kernel.outcome_features import BUCKETS
from worldline.kernel.step_table import LoggedStep
from worldline.kernel.vectors import distinct_columns, used_columns

Array = npt.NDArray[np.float64]
Fit = tuple[Array, Array]
"""The trust in what votes (2,), and the table (F, C)."""
_STEPS, _MORE_STEPS = 100, 40
"""Of a fit, and of one that goes on from another."""
_VARIANCES = 0.01, 0.03, 0.1, 0.3, 1.0
"""Of a weight, before the log is read. Held-out steps say which is right."""
_FLOOR = 1e-3
"""Probability that a held-out outcome against all evidence is granted: one alone does not choose the variance."""
_PRIOR, _PRIOR_OF_MANY = 2.0, 0.1
"""Votes that the outcomes of all like happenings have beside those of the candidates; where outcomes are many."""
_LEAST = 1.0
"""Happenings that the log's overall outcomes stand for among like ones."""
_NUMBER = re.compile(NUMBER)


def outcome_of(row: LoggedStep) -> StepOutcome:
    return StepOutcome(round(row.reward, 6), row.ended, row.success)


@dataclass(frozen=True)
class Votes:
    """The outcomes of the sources, each with its share of the effective number of sources."""

    like: dict[StepOutcome, float]
    """Of steps that were the same happening; below, of others."""
    other: dict[StepOutcome, float]

    @property
    def together(self) -> Counter[StepOutcome]:
        return Counter(self.like) + Counter(self.other)


@dataclass(frozen=True)
class JudgedStep:
    """A logged step for the fit: features, the votes of its candidates, and what happened."""

    episode: int
    features: npt.NDArray[np.int64]
    votes: Votes
    happening: str
    outcome: StepOutcome
    weight: float = 1.0


class OutcomeModel(nn.Module):
    """p(reward, end, success | history, action, answer)."""

    table: Tensor
    trust: Tensor
    corrects: Tensor
    """Whether held-out steps said that the table is right; else the votes alone decide, where outcomes are many."""

    def __init__(self, rows: Sequence[LoggedStep], happenings: Sequence[str]) -> None:
        super().__init__()
        self._steps = len(rows)
        self.classes = OutcomeClasses(map(outcome_of, rows))
        self._like: dict[str, Array] = defaultdict(lambda: np.zeros(len(self.classes)))
        """Of each happening, how often it had an outcome of each class; below, within each episode."""
        self._like_in: dict[tuple[int, str], Array] = defaultdict(lambda: np.zeros(len(self.classes)))
        for row, happening in zip(rows, happenings, strict=True):
            number = self.classes.number(outcome_of(row))
            self._like[happening][number] += 1
            self._like_in[row.episode, happening][number] += 1
        self.register_buffer("table", torch.zeros(BUCKETS, len(self.classes)))
        self.register_buffer("trust", torch.ones(2))
        self.register_buffer("corrects", torch.tensor(False))
        self.rules = RewardRules()

    def prior(self, votes: Votes, happening: str, own: int = -1) -> Array:
        """How likely each class is at like happenings, and by what else votes how much likelier than in the log.

        Both as logarithms, (2, C). What happened in episode `own` of the log is left out, -1: nothing is.
        """
        like = _LEAST * self.classes.shares
        if happening in self._like:
            like = like + self._like[happening] - self._like_in.get((own, happening), 0.0)
        prior = _PRIOR if self.classes.few else _PRIOR_OF_MANY
        of_like = prior * like / like.sum() + self.classes.summed(votes.like) + 1e-6
        of_other = prior * self.classes.shares + self.classes.summed(votes.other) + 1e-6
        ratio = of_other / of_other.sum() / (self.classes.shares + 1e-6)
        out: Array = np.log(np.stack([of_like / of_like.sum(), ratio]))
        return out

    def chances(
        self, features: npt.NDArray[np.int64], votes: Votes, happening: str, own: int = -1
    ) -> tuple[tuple[StepOutcome, ...], Array]:
        """The possible outcomes and their probabilities, by all episodes but `own`."""
        counted = votes.together
        if len(self.classes) < 2 or not (self.classes.few or self.corrects):
            return tuple(counted), np.array(list(counted.values())) / counted.total()
        logits = self.trust.numpy() @ self.prior(votes, happening, own) + self.table.numpy()[features].sum(0)
        if not self.classes.few:  # a text that was always the last is the last
            logits = np.where(self.classes.possible(counted), logits, -np.inf)
        weights = np.exp(logits - logits.max())
        return self.classes.spread(weights / weights.sum(), counted)

    def fit(self, steps: Sequence[JudgedStep], held_out: frozenset[int]) -> dict[str, float]:
        """Fit the correction, and keep it where it is righter on held-out steps than the votes alone.

        Of few outcomes by nats per step, of many by how far off their means are. A fit of many, which has many weights,
        goes on from the one before it.
        """
        testing = np.array([one.episode in held_out for one in steps], bool)
        if len(self.classes) < 2 or not testing.any():
            return {}
        used, columns = used_columns(np.concatenate([one.features for one in steps]), BUCKETS)
        starts = np.cumsum([0, *(len(one.features) for one in steps)])
        features = csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(steps), len(used)))
        features, distinct, many = distinct_columns(features)
        judged = _Judged(
            features,
            many[:, None],
            np.stack([self.prior(one.votes, one.happening, one.episode) for one in steps]),
            np.array([self.classes.number(one.outcome) for one in steps]),
            np.array([one.weight for one in steps]) * self._steps / sum(one.weight for one in steps),
        )
        training, tested = judged.part(~testing), judged.part(testing)
        if self.classes.few:
            name, error = "nats", tested.nats
            by_votes = tested.nats(np.ones(2), np.zeros((len(many), len(self.classes))))
        else:
            means = _Means(self.classes, [one for one in steps if one.episode in held_out], tested)
            name, error, by_votes = "error", means.error, means.error_of_votes()
        begun: Fit | None = None
        best: tuple[float, Fit | None] | None = None
        lowest = by_votes
        for variance in _VARIANCES:
            fitted = training.fitted(variance, begun)
            begun = None if self.classes.few else fitted
            if (this := error(*fitted)) < lowest:
                best, lowest = (variance, begun), this
        if best is not None:
            trust, weights = judged.fitted(*best)
            self.trust.copy_(torch.from_numpy(trust))
            self.table[torch.from_numpy(used)] = torch.from_numpy((weights / many[:, None])[distinct]).float()
            self.corrects.fill_(True)
        return {f"outcome {name} by votes": by_votes, f"outcome {name}": lowest}


@dataclass(frozen=True)
class _Judged:
    """Logged steps as a regression: features (n, F), priors (n, 2, C), classes and weights (n,).

    Each feature stands for so many alike (F, 1).
    """

    features: csr_matrix
    many: npt.NDArray[np.int64]
    priors: Array
    right: npt.NDArray[np.int64]
    weights: Array

    def part(self, rows: npt.NDArray[np.bool_]) -> "_Judged":
        return _Judged(self.features[rows], self.many, self.priors[rows], self.right[rows], self.weights[rows])

    def log_chances(self, trust: Array, table: Array) -> Array:
        out: Array = log_softmax(np.einsum("p,npc->nc", trust, self.priors) + self.features @ table, axis=1)
        return out

    def nats(self, trust: Array, table: Array) -> float:
        """Per step."""
        chances = np.exp(self.log_chances(trust, table)[np.arange(len(self.right)), self.right])
        return float(np.average(-np.log((1 - _FLOOR) * chances + _FLOOR), weights=self.weights))

    def fitted(self, variance: float, begun: Fit | None = None) -> Fit:
        """The likeliest trust, never negative, and table; the search goes on from `begun`, where that is given.

        A step is not among the like happenings of its own prior, so that of a win has one win less than that of a loss
        at which the same happened. A negative trust would read the outcome from this.
        """
        from scipy.optimize import Bounds, minimize  # slow to import, and only a fit needs it

        rows, classes = np.arange(len(self.right)), self.priors.shape[2]

        def loss(values: Array) -> tuple[float, Array]:
            trust, table = values[:2], values[2:].reshape(-1, classes)
            log_chances = self.log_chances(trust, table)
            slopes = np.exp(log_chances)
            slopes[rows, self.right] -= 1
            slopes *= self.weights[:, None]
            nats = -self.weights @ log_chances[rows, self.right]
            penalty = np.square(trust - 1).sum() / 2 + (np.square(table) / self.many).sum() / (2 * variance)
            of_trust = np.einsum("nc,npc->p", slopes, self.priors) + trust - 1
            of_table = self.features.T @ slopes + table / (self.many * variance)
            return nats + penalty, np.concatenate([of_trust, of_table.ravel()])

        trust, table = (np.ones(2), np.zeros((self.features.shape[1], classes))) if begun is None else begun
        start, steps = np.concatenate([trust, table.ravel()]), _STEPS if begun is None else _MORE_STEPS
        bounds = Bounds(np.where(np.arange(len(start)) < 2, 0.0, -np.inf), np.inf)
        best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": steps})
        return best.x[:2], best.x[2:].reshape(-1, classes)


class _Means:
    """How far the expected rewards and ends of held-out steps are from what happened."""

    def __init__(self, classes: OutcomeClasses, steps: Sequence[JudgedStep], judged: "_Judged") -> None:
        self._judged = judged
        votes = [one.votes.together for one in steps]
        self._possible = np.stack([classes.possible(counted) for counted in votes])
        self._of_classes = np.stack([classes.means(counted) for counted in votes])
        """(n, C, 2): reward and end."""
        outcomes = [[(one.reward, float(one.ended)) for one in counted] for counted in votes]
        shares = [list(counted.values()) for counted in votes]
        self._of_votes = np.stack([np.average(of, 0, one) for of, one in zip(outcomes, shares, strict=True)])
        self._right = np.array([(one.outcome.reward, float(one.outcome.ended)) for one in steps])
        mean = np.average(self._right, 0, judged.weights)
        self._spread = np.average(np.square(self._right - mean), 0, judged.weights)

    def error_of_votes(self) -> float:
        return self._error(self._of_votes)

    def error(self, trust: Array, table: Array) -> float:
        """Squared error as a share of what the mean over all steps makes, on average of reward and end."""
        log_chances = self._judged.log_chances(trust, table)
        chances = softmax(np.where(self._possible, log_chances, -np.inf), axis=1)
        return self._error(np.einsum("nc,ncm->nm", chances, self._of_classes))

    def _error(self, expected: Array) -> float:
        errors = np.average(np.square(expected - self._right), 0, self._judged.weights)
        varied = self._spread > 1e-12 * (1 + np.square(self._right).mean(0))
        return float((errors[varied] / self._spread[varied]).mean()) if varied.any() else 0.0


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
