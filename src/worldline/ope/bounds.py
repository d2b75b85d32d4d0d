"""Intervals with a proof: empirical Bernstein, high-confidence lower bounds (HCOPE), and confidence sequences.

Each holds at every number of episodes, for values whose expectation is the truth (`is`, `pdis`) or lies below it
(clipped weights, returns not negative); each is refused for every other estimator, with the reason. Episodes of one
task are averaged first: tasks are independent. `anytime` may be looked at after every episode of a growing log.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from worldline.ope.intervals import Interval, around
from worldline.ope.log import Codes, Episodes, RaggedLog, RefusalError
from worldline.ope.weights import exp
from worldline.types import InputError

Bound = Literal["bernstein", "hcope", "anytime"]
PROVEN: dict[Bound, tuple[str, ...]] = {
    "bernstein": ("naive", "is-clip", "pdis-clip"),
    "hcope": ("naive", "is", "pdis", "is-clip", "pdis-clip"),
    "anytime": ("naive", "is", "pdis", "is-clip", "pdis-clip"),
}
TWO_SIDED = {"bernstein": ("naive",), "hcope": (), "anytime": ("naive", "is")}
GRID, BLOCK = 400, 40
CHUNK = 1 << 20


@dataclass(frozen=True, eq=False)
class BoundInput:
    """What the proofs need beside an estimator's values: the range of a return, and the weights of whole episodes."""

    log: RaggedLog
    gamma: float
    bounds: tuple[float, float]
    clip: float
    final: Episodes | None = None
    """log rho_{1:T}."""


def check_bounds(log: RaggedLog, gamma: float, bounds: tuple[float, float]) -> None:
    """InputError where the log itself contradicts the range."""
    returns = log.returns(gamma)
    outside = (returns < bounds[0] - 1e-9) | (returns > bounds[1] + 1e-9)
    if outside.any():
        worst = int(np.argmax(outside))
        raise InputError(
            f"--bounds {bounds[0]:g} {bounds[1]:g}: {log.name(worst)} of the log has return {returns[worst]:g}"
        )


def bounded(name: str, values: Episodes, method: Bound, given: BoundInput, confidence: float) -> Interval:
    """The interval of one estimator's values; RefusalError where it is not proven."""
    _refuse_unproven(name, method, given)
    low, high = given.bounds
    delta, tasks = 1 - confidence, given.log.tasks
    if method == "bernstein" and name == "naive":
        units = _task_means(values, tasks)
        half = empirical_bernstein(units[:, None], np.array([high - low]), delta)[0]
        return around(float(values.mean()), float(units.mean() - half), float(units.mean() + half), len(values))
    floor = low if name == "naive" else 0.0
    above = _task_means(values - floor, tasks)
    upper: float | None = None
    if method == "bernstein":
        half = empirical_bernstein(above[:, None], np.array([given.clip * high]), 2 * delta)[0]
        lower = float(above.mean() - half)
    elif method == "hcope":
        lower = hcope_lower(above, delta)
    else:
        both = name in TWO_SIDED[method]
        lower = betting_lower(above, delta / 2 if both else delta, high - floor)
        if both:
            room = high - values if given.final is None or name == "naive" else exp(given.final) * high - values
            upper = high - betting_lower(_task_means(room, tasks), delta / 2, high - floor)
    return around(float(values.mean()), max(floor + lower, low), upper, len(values))


def _refuse_unproven(name: str, method: Bound, given: BoundInput) -> None:
    if name not in PROVEN[method]:
        raise RefusalError(
            f"no {method} interval is proven for it: that needs values of known expectation and range, as of "
            f"{', '.join(PROVEN[method])}"
        )
    if name != "naive" and given.bounds[0] < 0:
        raise RefusalError(
            f"a {method} interval needs returns of 0 or more (--bounds 0 ...): add a constant to rewards"
        )
    if name.startswith("pdis") and given.log.rewards.min() < 0:
        raise RefusalError(f"a {method} interval of it needs rewards of 0 or more, and the log holds one below")


def _task_means(values: Episodes, tasks: Codes) -> npt.NDArray[np.float64]:
    """The mean of each task, in the order in which the log comes to them; with one task only, the episodes."""
    distinct, first, codes = np.unique(tasks, return_index=True, return_inverse=True)
    if len(distinct) == 1:
        return values
    means = np.bincount(codes, values) / np.bincount(codes)
    return np.asarray(means[np.argsort(first, kind="stable")])


def empirical_bernstein(
    units: npt.NDArray[np.float64], spread: npt.NDArray[np.float64], delta: float
) -> npt.NDArray[np.float64]:
    """Half width sqrt(2 s^2 ln(4/delta)/m) + 7 R ln(4/delta)/(3(m - 1)) (Maurer & Pontil 2009, theorem 4)."""
    m = len(units)
    log_term = np.log(4 / delta)
    deviation = np.sqrt(2 * units.var(axis=0, ddof=1) * log_term / m)
    return np.asarray(deviation + 7 * spread * log_term / (3 * (m - 1)))


def hcope_lower(values: Episodes, delta: float) -> float:
    """Lower bound on the mean of values >= 0 however heavy their tail (Thomas et al. 2015, theorem 1).

    Values are truncated at c; c is chosen on a twentieth of them, the bound is computed on the others.
    """
    split = max(2, len(values) // 20)
    pilot, rest = values[:split], values[split:]
    if len(rest) < 2 or not pilot.any():
        return 0.0
    candidates = pilot.mean() * np.geomspace(0.1, 1000, 60)
    best = max(candidates, key=lambda c: _hcope_at(pilot, float(c), delta, len(rest)))
    return max(0.0, _hcope_at(rest, float(best), delta, len(rest)))


def _hcope_at(values: Episodes, c: float, delta: float, n: int) -> float:
    """The bound with one threshold; `n` other than len(values) predicts what it would be at that size."""
    truncated = np.minimum(values, c)
    log_term = np.log(2 / delta)
    spread = np.sqrt(2 * log_term * truncated.var(ddof=1) / n)
    return float(truncated.mean() - 7 * c * log_term / (3 * (n - 1)) - spread)


def betting_lower(values: Episodes, delta: float, top: float) -> float:
    """The lower confidence sequence of the mean of values >= 0, at the end of the log (Waudby-Smith & Ramdas 2024).

    Against each hypothesis m a gambler bets lambda_i(m) on value i exceeding m, having seen the values before it; the
    capital prod_i (1 + lambda_i (x_i - m)) is a martingale if the mean is m, so it ever reaches 1/delta with
    probability delta at most (Ville). Values need no upper bound: lambda_i <= 1/(2m) keeps the capital positive.
    """
    count = np.arange(len(values))
    prior_mean, prior_square = top / 2, top**2
    mean = (prior_mean + np.concatenate([[0.0], np.cumsum(values)[:-1]])) / (count + 1)
    square = (prior_square + np.concatenate([[0.0], np.cumsum(values**2)[:-1]])) / (count + 1)
    means = np.linspace(0, top, GRID + 1)[1:]
    for tried in range(0, GRID, BLOCK):  # what lies above the first hypothesis that stands does not matter
        best = _most_capital(values, mean, square, means[tried : tried + BLOCK])
        standing = np.flatnonzero(best < np.log(1 / delta))
        if len(standing):
            below = tried + int(standing[0]) - 1
            return float(means[below]) if below >= 0 else 0.0
    return float(means[-1])


def _most_capital(
    values: Episodes, mean: Episodes, square: Episodes, means: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The largest log capital that the gambler ever has against each of `means`."""
    capital, best = np.zeros(len(means)), np.zeros(len(means))
    rows = max(1, CHUNK // len(means))
    for first in range(0, len(values), rows):
        part = slice(first, first + rows)
        edge = mean[part, None] - means
        spread = np.maximum(square[part, None] - 2 * means * mean[part, None] + means**2, 1e-12)
        bet = np.clip(edge / spread, 0.0, 0.5 / means)
        path = capital + np.cumsum(np.log1p(bet * (values[part, None] - means)), axis=0)
        best, capital = np.maximum(best, path.max(axis=0)), path[-1]
    return best
