"""Which policy is better, and how sure: paired differences, P(a > b), P(best), simultaneous intervals, the winner.

All policies are valued on one log, so their estimates move together: everything here comes from shared resamples of
the tasks. Probabilities are posterior ones in a normal model, estimates ~ N(values, S) with S from the resamples and
the model's errors, and values of candidates ~ N(mu, tau^2), mu flat, tau flat up to the range of returns (Gelman 2006),
integrated on a grid. So candidates that the log cannot tell apart are shrunk together, and the value of the one that
was picked is not that of its luck. Nobody picks among the loggers: the prior of each is flat.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy import special

from worldline.ope.intervals import (
    ROUNDING,
    Interval,
    Range,
    bootstrap_means,
    column_means,
    differences_of,
    intervals,
    stretches,
    widened,
    within,
)
from worldline.ope.log import Codes, Episodes, Matrix, RaggedLog

GRID = 60
DRAWS = 20_000
TIE = 1e-6
"""Share of the draws' spread below which two values are one."""
COMMON = 0.1
"""Share of the variance of a model's error that all candidates have in common: of `wm`, over ten policies each, .09 in
the mean of eleven worlds, from -.1 to .5 (`experiments/error_correlation.py`)."""
Vector = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """value(a) - value(b), its interval, and a lower limit that holds with the same confidence on one side."""

    a: str
    b: str
    value: float
    low: float | None
    high: float | None
    at_least: float | None
    p: float
    """P(a > b)."""


@dataclass(frozen=True)
class Winner:
    """The candidate of the highest estimate; `corrected` allows for its having been picked among several."""

    policy: str
    value: float
    corrected: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """The candidates among themselves, and against the policies that made the log, by one estimator."""

    differences: tuple[Difference, ...]
    p_best: dict[str, float]
    simultaneous: dict[str, Interval]
    """Intervals of all candidates that hold together with the stated confidence."""
    winner: Winner


@dataclass(frozen=True, eq=False)
class Posterior:
    """A mixture of normals over the values of all policies, one per tau of the grid."""

    shares: Vector
    means: Matrix
    covariances: npt.NDArray[np.float64]

    @property
    def mean(self) -> Vector:
        return np.asarray(self.shares @ self.means)

    def above(self, a: int, b: int) -> float:
        """P(value a > value b)."""
        variance = self.covariances[:, a, a] + self.covariances[:, b, b] - 2 * self.covariances[:, a, b]
        distance = self.means[:, a] - self.means[:, b]
        sure = np.where(distance == 0, 0.5, distance > 0)
        scaled = np.divide(distance, np.sqrt(np.maximum(variance, 1e-300)))
        p = float(self.shares @ np.where(variance > 1e-18, special.ndtr(scaled), sure))
        return min(p, 1.0)  # the shares add up to 1 but for rounding

    def draws(self, count: int, seed: int) -> Matrix:
        rng = np.random.default_rng(seed)
        components = rng.multinomial(count, self.shares / self.shares.sum())
        normal = rng.standard_normal((count, self.means.shape[1]))
        parts, first = [], 0
        for number, mean, covariance in zip(components, self.means, self.covariances, strict=True):
            eigenvalues, vectors = np.linalg.eigh(covariance)
            root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
            parts.append(mean + normal[first : first + number] @ root.T)
            first += number
        return np.concatenate(parts)


def posterior(estimates: Vector, covariance: Matrix, spread: float, candidates: int) -> Posterior:
    """Of the values, given their estimates: the candidates' come first, the loggers' follow.

    `spread` bounds tau, the standard deviation between candidates.
    """
    size = len(estimates)
    jitter = 1e-9 * max(float(np.trace(covariance)) / size, 1e-18)
    noise = covariance + jitter * np.eye(size)
    grid = np.concatenate([[0.0], np.geomspace(spread / 1000, spread, GRID - 1)])
    shrunk = np.diag((np.arange(size) < candidates).astype(float))
    centres = np.column_stack([shrunk.sum(1), np.eye(size)[:, candidates:]])  # mu, and each logger's own value
    log_shares, means, covariances = [], [], []
    for tau in grid:
        inverse = np.linalg.inv(noise + tau**2 * shrunk)
        precision = centres.T @ inverse @ centres
        centre = centres @ np.linalg.solve(precision, centres.T @ inverse @ estimates)
        residual = estimates - centre
        determinants = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(inverse)[1]
        log_shares.append(-0.5 * float(determinants + residual @ inverse @ residual))
        kept = tau**2 * shrunk @ inverse  # in this form nothing cancels: at tau = 0 all candidates are one, exactly
        means.append(centre + kept @ residual)
        towards = centres - kept @ centres
        spread_left = kept @ noise
        covariances.append((spread_left + spread_left.T) / 2 + towards @ np.linalg.solve(precision, towards.T))
    steps = np.gradient(grid)  # flat in tau
    shares = np.exp(np.array(log_shares) - max(log_shares)) * steps
    return Posterior(shares / shares.sum(), np.stack(means), np.stack(covariances))


def error_covariance(columns: Sequence[Episodes], errors: Vector) -> Matrix:
    """Of a model's errors: two columns that vary alike are one policy under two names, and have one error.

    Where every episode has one value, policies may differ all the same: two that never win are not one.
    """
    alike = np.array([[np.ptp(a) > 0 and np.array_equal(a, b) for b in columns] for a in columns], dtype=bool)
    correlations = np.where(alike, 1.0, COMMON)
    np.fill_diagonal(correlations, 1.0)
    return correlations * np.outer(errors, errors)


def error_of_difference(a: Episodes, b: Episodes, error_a: float, error_b: float) -> float:
    """Of models' errors, in the difference of two policies' values."""
    (of_a, common), (_, of_b) = error_covariance([a, b], np.array([error_a, error_b])).tolist()
    return float(np.sqrt(max(of_a + of_b - 2 * common, 0.0)))


def compare(
    candidates: Mapping[str, Episodes],
    loggers: Mapping[str, Episodes],
    tasks: Codes,
    errors: Mapping[str, float],
    spread: float,
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    ends: Range | None = None,
) -> Comparison:
    """`candidates` and `loggers` are per-episode values; `errors` the standard errors that no resample shows.

    `ends`: the lowest and the highest that a policy can be worth, where that is certain.
    """
    labels = [*candidates, *(_reference(name) for name in loggers)]
    columns = [*candidates.values(), *loggers.values()]
    resampled = bootstrap_means(columns, tasks, replicates, seed)
    estimates, own = column_means(columns), np.array([errors.get(label, 0.0) for label in labels])
    scale = _scale(resampled, own, spread)
    of_models = error_covariance(columns, own / scale)
    stretch = stretches(columns, tasks, (1 - confidence) / 2)
    root = np.sqrt(stretch)
    covariance = np.atleast_2d(np.cov(resampled / scale, rowvar=False)) * np.outer(root, root) + of_models
    count = len(candidates)
    after = posterior(estimates / scale, covariance, max(spread / scale, 1e-12), count)
    pairs = [(a, b) for a, b in combinations(range(len(labels)), 2) if a < count]
    drawn = after.draws(DRAWS, seed)
    top = int(np.argmax(estimates[:count]))
    wins = best_shares(drawn[:, :count])
    limits = scale * np.quantile(drawn[:, top], [(1 - confidence) / 2, (1 + confidence) / 2])
    value, corrected = float(estimates[top]), float(scale * after.mean[top])
    if ends is not None and ends[0] <= value <= ends[1]:  # the normal model does not stop there
        limits, corrected = np.clip(limits, *ends), float(np.clip(corrected, *ends))
    single = intervals(columns[:count], tasks, confidence=confidence, replicates=replicates, seed=seed)
    deviations = (resampled[:, :count] - estimates[:count]) * stretch[:count]
    deviations[np.abs(deviations) <= ROUNDING * np.abs(resampled[:, :count]).max(axis=0)] = 0.0
    simultaneous = _simultaneous(single, deviations / scale, of_models[:count, :count], scale, confidence, seed)
    return Comparison(
        differences=tuple(
            _differences(
                pairs, labels, count, columns, tasks, of_models, scale, after, confidence, replicates, seed, ends
            )
        ),
        p_best=dict(zip(labels[:count], wins, strict=True)),
        simultaneous={label: within(each, ends) for label, each in zip(labels, simultaneous, strict=False)},
        winner=Winner(labels[top], value, corrected, float(limits[0]), float(limits[1])),
    )


def _scale(resampled: Matrix, errors: Vector, spread: float) -> float:
    """The size of differences: divided by it, returns in any unit meet the same tolerances."""
    width = np.ptp(resampled, axis=0)
    noise = ROUNDING * np.abs(resampled).max(axis=0)
    return max(spread, float(errors.max()), float(np.where(width > noise, width, 0.0).max())) or 1.0


def best_shares(drawn: Matrix) -> list[float]:
    """How often each policy is the best; policies that are alike but for rounding share a draw.

    Where tau is 0 all values are one value, and a covariance of rank one leaves about the root of a double's precision
    between them: without the tolerance that noise would name the best.
    """
    nearly = drawn.max(axis=1, keepdims=True) - TIE * max(float(drawn.std()), 1e-300)
    best = drawn >= nearly
    shares: list[float] = (best / best.sum(axis=1, keepdims=True)).mean(axis=0).tolist()
    return shares


def logged_values(log: RaggedLog, gamma: float) -> dict[str, Episodes]:
    """Per logger, its mean return linearised over all episodes: so that tasks can be resampled with the candidates'."""
    returns, values = log.returns(gamma), {}
    for code in np.unique(log.policies):
        own = log.policies == code
        mean = float(returns[own].mean())
        values[log.policy_names[code] if log.policy_names else str(code)] = mean + own * (returns - mean) / own.mean()
    return values


def _reference(name: str) -> str:
    return f"logged {name}"


def _differences(
    pairs: Sequence[tuple[int, int]],
    labels: Sequence[str],
    candidates: int,
    columns: Sequence[Episodes],
    tasks: Codes,
    of_models: Matrix,
    scale: float,
    after: Posterior,
    confidence: float,
    replicates: int,
    seed: int,
    ends: Range | None,
) -> list[Difference]:
    """Of two candidates the better one first; a logger is always the second. `of_models` and `after` are in `scale`."""
    if not pairs:
        return []
    means = column_means(columns)
    better = [(b, a) if b < candidates and means[b] > means[a] else (a, b) for a, b in pairs]
    values = [columns[a] - columns[b] for a, b in better]
    rows = intervals(values, tasks, confidence=confidence, replicates=replicates, seed=seed)
    one_sided = max(2 * confidence - 1, 1e-3)
    lower = intervals(values, tasks, confidence=one_sided, replicates=replicates, seed=seed)
    differences = []
    for (a, b), row, limited in zip(better, rows, lower, strict=True):
        error = scale * float(np.sqrt(max(of_models[a, a] + of_models[b, b] - 2 * of_models[a, b], 0.0)))
        both = within(widened(row, error, confidence), differences_of(ends))
        limit = within(widened(limited, error, one_sided), differences_of(ends)).low
        differences.append(Difference(labels[a], labels[b], both.value, both.low, both.high, limit, after.above(a, b)))
    return differences


def _simultaneous(
    single: Sequence[Interval], deviations: Matrix, of_models: Matrix, scale: float, confidence: float, seed: int
) -> list[Interval]:
    """estimate +- c s, c the quantile of the largest |deviation| / s over the candidates (max-t), where a deviation is
    that of a resample and of a model's error; never within the interval that holds on its own, whose limits follow a
    skewed sample. `deviations` and `of_models` are in units of `scale`."""
    drawn = np.random.default_rng([seed, 1]).multivariate_normal(
        np.zeros(len(single)), of_models, len(deviations), method="eigh"
    )
    spreads = np.sqrt(deviations.var(axis=0, ddof=1) + np.diag(of_models))
    scaled = np.abs(deviations + drawn) / np.maximum(spreads, 1e-300)
    critical = float(np.quantile(scaled.max(axis=1), confidence))
    together = []
    halves, errors = critical * scale * spreads, scale * np.sqrt(np.diag(of_models))
    for each, half, error in zip(single, halves.tolist(), errors.tolist(), strict=True):
        alone = widened(each, error, confidence)
        low = None if alone.low is None else min(alone.low, each.value - half)
        high = None if alone.high is None else max(alone.high, each.value + half)
        together.append(Interval(each.value, low, high, each.n))
    return together
