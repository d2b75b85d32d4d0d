"""Importance weights in log space: cumulative, clipped, balanced over loggers, self-normalised; and their diagnostics.

The central array is `weights`: log rho_{1:t} = sum_{k<=t} log pi_e(a_k|h_k) - log pi_b(a_k|h_k), one per step, -inf
once the target would never have acted so. Nothing is exponentiated before a shift or a bound is applied.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from worldline.ope.log import Episodes, RaggedLog, RefusalError, Steps, TargetLog

LARGEST_LOG = 600.0
"""exp() saturates here (1e260), so sums and products of weights stay finite; such an estimate is flagged anyway."""

NEVER = -1e100
"""A log-probability below this is that of an impossible action: a sum of such would not fit a double."""


def cumulative(ratios: Steps, offsets: npt.NDArray[np.int64]) -> Steps:
    """Running sum within each episode; -inf stays -inf to the end of its episode.

    The total of an episode is taken off where the next one starts, so the running value never grows beyond one
    episode's and rounding does not depend on the length of the log.
    """
    starts = offsets[:-1]
    never = np.isneginf(ratios)
    any_never = bool(never.any())
    steps = np.where(never, 0.0, ratios) if any_never else ratios.copy()
    totals = np.add.reduceat(steps, starts)
    steps[starts[1:]] -= totals[:-1]
    result = np.cumsum(steps, out=steps)
    if any_never:
        dead = np.cumsum(never)
        before: npt.NDArray[np.int64] = np.repeat((dead - never)[starts], np.diff(offsets))
        result[dead > before] = -np.inf
    return result


def log_ratios(log: RaggedLog, target: TargetLog) -> Steps:
    """log pi_e(a_t|h_t) - log pi_b(a_t|h_t) with the logged behaviour log-probabilities."""
    unknown, least = 0, 0.0
    for part, _, _ in log.blocks():
        unknown += int(np.isnan(part.behaviour).sum())
        least = min(least, float(part.behaviour.min()))
    if unknown:
        raise RefusalError(
            f"needs behaviour log-probs: column 'logprob' is empty in {unknown:,} of {log.steps:,} steps "
            "(--logger NAME=SPEC gives it, NAME=clone estimates it)"
        )
    if least < NEVER:
        raise RefusalError(f"column 'logprob' holds {least:g}: the logged action would have had probability 0")
    return log.each_step(
        lambda part, steps: np.where(target.logprobs[steps] < NEVER, -np.inf, target.logprobs[steps]) - part.behaviour
    )


def mixture_logprobs(log: RaggedLog, loggers: Sequence[Steps]) -> Steps:
    """Behaviour log-probs of the mixture of all loggers: put in `behaviour`'s place, they give balanced weights.

    `loggers` holds log pi_k(a_t|h_t) of every logger on every logged action, whoever took it. The product over steps is
    sum_k (n_k/n) pi_k(prefix), the denominator of the balance heuristic (Veach 1995; Agarwal et al. 2017): bounded
    wherever any logger covers the target, which weights by the one that happened to act are not. All loggers must have
    drawn their tasks alike.
    """
    shares = np.bincount(log.policies, minlength=len(loggers)) / log.episodes
    present = np.flatnonzero(shares)

    def mixed(part: RaggedLog, steps: slice) -> Steps:
        prefixes = np.stack([cumulative(loggers[int(k)][steps], part.offsets) + np.log(shares[k]) for k in present])
        mixture = np.asarray(logsumexp(prefixes, axis=0))
        if np.any(np.isneginf(mixture)):
            raise RefusalError("the loggers give a logged action probability 0: are they the policies that logged it?")
        return np.asarray(mixture - previous(mixture, part))

    return log.each_step(mixed)


def clipped(weights: Steps, bound: float) -> Steps:
    """min(rho_{1:t}, bound): truncated importance sampling (Ionides 2008); its default bound is sqrt(n)."""
    return np.minimum(weights, np.log(bound))


def exp(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The weights themselves, saturated so that nothing overflows."""
    return np.exp(np.minimum(weights, LARGEST_LOG))


def previous(weights: Steps, log: RaggedLog) -> Steps:
    """log rho_{1:t-1}: 0 at the first step."""
    shifted = np.empty_like(weights)
    shifted[1:] = weights[:-1]
    shifted[log.starts] = 0.0
    return shifted


@dataclass(frozen=True)
class Normalised:
    """Weights divided by their mean over episodes, step by step, and what is needed to linearise such a ratio."""

    weights: Steps
    """w_t / mean_i w_t."""
    log_mean: Annotated[npt.NDArray[np.float64], "horizon"]
    last: Episodes
    """log weight with which an episode that has ended stays in the later means."""


def normalised(weights: Steps, last: Episodes, log: RaggedLog) -> Normalised:
    """Self-normalisation per step (Precup et al. 2000), an ended episode keeping its last weight.

    That is the ragged log seen as zero-padded with ratio 1 after the end: the mean weight then has expectation 1 at
    every step. Dropping ended episodes instead would normalise over survivors, and is biased.
    """
    horizon = log.horizon
    top = np.full(horizon + 1, -np.inf)
    for part, steps, _ in log.blocks():
        np.maximum.at(top, part.time, weights[steps])
    ended = np.full(horizon + 1, -np.inf)
    np.maximum.at(ended, log.lengths, last)
    top = np.maximum(top, np.maximum.accumulate(ended))[:horizon]
    if np.isneginf(top).any():
        raise RefusalError(NO_EVIDENCE)
    mass = log.summed(
        lambda part, steps: np.bincount(part.time, np.exp(weights[steps] - top[part.time]), minlength=horizon)
    )
    stay = _ended_mass(last, log, top)
    log_mean = np.log((mass + stay) / log.episodes) + top
    scaled = log.each_step(lambda part, steps: np.exp(weights[steps] - log_mean[part.time]))
    return Normalised(scaled, log_mean, last)


def _ended_mass(last: Episodes, log: RaggedLog, top: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """sum over episodes that ended before step t of exp(last - top[t])."""
    by_length = np.full(log.horizon + 1, -np.inf)
    np.maximum.at(by_length, log.lengths, last)
    shift = np.where(np.isneginf(by_length), 0.0, by_length)
    mass = np.bincount(log.lengths, np.exp(last - shift[log.lengths]), minlength=log.horizon + 1)
    with np.errstate(divide="ignore"):
        running = np.logaddexp.accumulate(np.log(mass) + shift)
    return np.asarray(np.exp(running[: log.horizon] - top))


NO_EVIDENCE = "all importance weights are 0: the target never acts as any logged episode did"


def self_normalised(x: Steps, scheme: Normalised, log: RaggedLog, gamma: float) -> Episodes:
    """One value per episode whose mean is sum_t gamma^(t-1) sum_i w_it x_it / sum_i w_it.

    The values are linearised (x_it - m_t, m_t the ratio at step t), ended episodes included at x = 0, so that their
    spread is the sampling spread of the ratio: what makes one interval function serve every estimator.
    """
    discount = np.power(gamma, np.arange(log.horizon))
    earned = log.summed(
        lambda part, steps: np.bincount(part.time, scheme.weights[steps] * x[steps], minlength=log.horizon)
    )
    ratio = earned / log.episodes

    def centred(part: RaggedLog, steps: slice) -> Episodes:
        weights = scheme.weights[steps]
        from_ratio = weights * (x[steps] - ratio[part.time]) * left_out(weights / log.episodes)
        return part.total(from_ratio * discount[part.time])

    influence = log.each_episode(centred) - _ended_share(discount * ratio, scheme, log)
    return np.asarray(float(discount @ ratio) + influence - influence.mean())


def left_out(share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """1 / (1 - share): how much farther a value lies from the mean of the others than from that of all.

    A large weight pulls the ratio towards its own value; without this (the jackknife's) factor its spread would look
    small exactly where one episode decides.
    """
    return np.asarray(1 / np.maximum(1 - share, LEAST_LEFT))


LEAST_LEFT = 0.1
"""Bounds the factor where one weight is nearly all: such an estimate is flagged anyway."""


def _ended_share(m: npt.NDArray[np.float64], scheme: Normalised, log: RaggedLog) -> Episodes:
    """exp(last_i) * sum over steps t after the end of episode i of m_t / mean weight_t, in log space by sign."""
    share = np.zeros(log.episodes)
    for sign in (1.0, -1.0):
        part = np.maximum(sign * m, 0.0)
        with np.errstate(divide="ignore"):
            tail = np.logaddexp.accumulate((np.log(part) - scheme.log_mean)[::-1])[::-1]
        after = np.append(tail, -np.inf)[log.lengths]
        share += sign * np.exp(scheme.last + after)
    return share


@dataclass(frozen=True)
class WeightDiagnostics:
    """How much of the log counts for the target. `mean` is 1 in expectation where the log supports the target."""

    ess: float
    """Effective sample size in episodes, (sum w)^2 / sum w^2."""
    largest_share: float
    mean: float
    pareto_k: float | None
    """Importance-weight tail index k; above 0.7 no practical n makes the mean reliable (Vehtari et al. 2024). None
    where there is no tail: few distinct weights, or most episodes count alike."""


HIGH_ESS = 0.5
"""Share of effective episodes above which the largest weights decide nothing, whatever the shape of their tail."""
FEWEST_DISTINCT = 10
"""Distinct weights below which a tail has no shape; equal up to rounding counts as equal."""


def diagnose(final: Episodes) -> WeightDiagnostics:
    """Diagnostics of the episodes' final log weights."""
    top = final.max()
    if np.isneginf(top):
        return WeightDiagnostics(ess=0.0, largest_share=0.0, mean=0.0, pareto_k=None)
    scaled = np.exp(final - top)
    total = scaled.sum()
    mean = float(exp(np.array(np.log(total / len(final)) + top)))
    ess = float(total**2 / (scaled**2).sum())
    k = None if ess > HIGH_ESS * len(final) else pareto_shape(scaled)
    return WeightDiagnostics(ess, float(1 / total), mean, k)


def pareto_shape(weights: Episodes) -> float | None:
    """k of a generalised Pareto fitted to the largest weights (Zhang & Stephens 2009); None without a tail to fit."""
    count = int(min(0.2 * len(weights), 3 * np.sqrt(len(weights))))
    if count < 5:
        return None
    ordered = np.partition(weights, len(weights) - count - 1)
    threshold = ordered[len(weights) - count - 1]
    largest = np.sort(ordered[len(weights) - count :])
    tail = (largest - threshold)[largest > threshold]
    if len(np.unique(np.round(np.log(largest[largest > threshold]), 9))) < min(FEWEST_DISTINCT, count):
        return None
    grid = 20 + int(np.sqrt(len(tail)))
    quartile = tail[max(0, round(len(tail) / 4) - 1)]
    candidates = (1 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3 * quartile) + 1 / tail[-1]
    shape = np.log1p(-candidates[:, None] * tail).mean(axis=1)
    likelihood = len(tail) * (np.log(-candidates / shape) - shape - 1)
    posterior = np.exp(likelihood - logsumexp(likelihood))
    best = float(candidates @ posterior)
    raw = float(np.log1p(-best * tail).mean())
    return (raw * len(tail) + 0.5 * 10) / (len(tail) + 10)
