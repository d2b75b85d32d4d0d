"""What a training run came to, and what one arm gains over another: pairs of runs that share a seed and a start.

The measures were fixed before the first judged run. A difference has Student's 95 % interval and two p-values:
Student's and that of the exact sign-flip test, which asks how many of the 2^n ways to flip the signs of n differences
give a mean at least as far from 0. With six pairs it cannot be below 2 / 64 = .031. No p-value is corrected for the
number of comparisons: one comparison per environment is the first question, the others are named as further ones.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

LAST = 3
"""Evaluations at the end of a run whose mean is its result."""
HALF = 0.5
MEASURES = {
    "success": "mean success of the last three evaluations",
    "area": "mean success of the rollouts: the area under their curve, over its width",
    "observation_ce": "cross-entropy of held-out observations at the end, nats per token",
    "pass@4": "pass@4, mean of the last three evaluations",
    "to_half": "updates until the rollouts' success is .5; a run that never gets there counts one more than it has",
}
EQUAL = 1e-12
"""Means this close are equal: sums of the same numbers in another order."""


def measures(row: Mapping[str, Any]) -> dict[str, float]:
    """The measures of one run; NaN where it has no such metric."""
    curve = row["curve"]
    ce, together = row.get("observation_ce") or [], row.get("pass@4") or []
    return {
        "success": statistics.mean(value for _, value in curve[-LAST:]),
        "area": area(row["training"]),
        "observation_ce": ce[-1][1] if ce and ce[-1][0] == curve[-1][0] else math.nan,
        "pass@4": statistics.mean(value for _, value in together[-LAST:]) if together else math.nan,
        "to_half": first_reached(row["training"], HALF),
    }


def area(curve: Sequence[tuple[int, float]]) -> float:
    """The mean height of the broken line through the points."""
    width = curve[-1][0] - curve[0][0]
    if not width:
        return float(curve[0][1])
    parts = ((b - a) * (low + high) / 2 for (a, low), (b, high) in itertools.pairwise(curve))
    return sum(parts) / width


def first_reached(curve: Sequence[tuple[int, float]], level: float) -> float:
    """Where the broken line first reaches `level`; if nowhere, one step behind its end."""
    if curve[0][1] >= level:
        return float(curve[0][0])
    for (a, low), (b, high) in itertools.pairwise(curve):
        if high >= level:
            return a + (b - a) * (level - low) / (high - low)
    step = curve[-1][0] - curve[-2][0] if len(curve) > 1 else 1
    return float(curve[-1][0] + step)


@dataclass(frozen=True)
class Comparison:
    """What `arm` has more than `base` of a measure, over the seeds that both have. None where one pair says nothing."""

    start: str
    arm: str
    base: str
    measure: str
    pairs: int
    base_mean: float
    arm_mean: float
    difference: float
    low: float | None
    high: float | None
    p_student: float | None
    p_sign_flip: float
    differences: dict[int, float]
    """By seed."""


def compare(rows: Sequence[Mapping[str, Any]], arm: str, base: str, measure: str, start: str) -> Comparison | None:
    """Over one start, or with start 'all' over the mean of a seed's starts; None without a pair or the measure."""
    by_seed: dict[int, list[tuple[float, float]]] = {}
    values = {(row["start"], row["seed"], row["variant"]): measures(row)[measure] for row in rows}
    for at, seed, variant in values:
        pair = values[at, seed, variant], values.get((at, seed, base), math.nan)
        if variant == arm and start in (at, "all") and not any(map(math.isnan, pair)):
            by_seed.setdefault(seed, []).append(pair)
    if start == "all":  # a seed that lacks a start would weigh the starts unevenly
        most = max(map(len, by_seed.values()), default=0)
        by_seed = {seed: pairs for seed, pairs in by_seed.items() if len(pairs) == most}
    if not by_seed:
        return None
    means = {seed: tuple(map(statistics.mean, zip(*pairs, strict=True))) for seed, pairs in sorted(by_seed.items())}
    differences = {seed: mine - theirs for seed, (mine, theirs) in means.items()}
    interval = student(list(differences.values()))
    return Comparison(
        start=start,
        arm=arm,
        base=base,
        measure=measure,
        pairs=len(differences),
        base_mean=statistics.mean(theirs for _, theirs in means.values()),
        arm_mean=statistics.mean(mine for mine, _ in means.values()),
        difference=statistics.mean(differences.values()),
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        p_student=interval.p if interval else None,
        p_sign_flip=sign_flip(list(differences.values())),
        differences=differences,
    )


@dataclass(frozen=True)
class Student:
    """The 95 % interval of a mean, and the two-sided p-value of its being 0."""

    low: float
    high: float
    p: float


def student(differences: Sequence[float]) -> Student | None:
    """None for one difference, or where all are equal: then the formula would be certain of its mean."""
    n = len(differences)
    if n < 2 or max(differences) - min(differences) <= EQUAL:
        return None
    mean, error = statistics.mean(differences), statistics.stdev(differences) / math.sqrt(n)
    half = float(stats.t.ppf(0.975, n - 1)) * error
    return Student(mean - half, mean + half, 2 * float(stats.t.sf(abs(mean / error), n - 1)))


def sign_flip(differences: Sequence[float]) -> float:
    """The share of the 2^n choices of signs whose sum is at least as far from 0 as the one observed. Exact.

    The sums of n differences are those of n - 1, plus and minus the last; half of them are enough, by symmetry.
    """
    sums = [differences[0]]
    for value in differences[1:]:
        sums = [total + signed for total in sums for signed in (value, -value)]
    observed = abs(sum(differences))
    return sum(abs(total) >= observed - EQUAL * len(differences) for total in sums) / len(sums)
