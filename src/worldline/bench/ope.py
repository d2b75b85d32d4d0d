"""What the classical estimators cost on a log of a million steps: time, memory, and how both grow."""

import time
import tracemalloc
from typing import Any, ClassVar, Literal

import numpy as np

from worldline.bench import Figures, scope_rl
from worldline.bench.ope_log import evaluated
from worldline.config import Config, option
from worldline.ope.diagnostics import diagnostics
from worldline.ope.estimation import ESTIMATORS, EstimatorInput, estimate
from worldline.ope.intervals import intervals
from worldline.ope.log import RaggedLog, TargetLog
from worldline.types import InputError

WEIGHT_BASED = tuple(name for name, entry in ESTIMATORS.items() if set(entry.needs) <= {"weights", "clipped"})


class OpeBenchConfig(Config):
    """Weights, diagnostics, all weight-based estimators and their task-clustered bootstrap intervals, on synthetic
    ragged logs of 5 to 60 steps an episode, 20 on average; time after loading, memory including the log's own arrays.
    Then the whole command on a log folder and on one a tenth as large, reading included.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench ope",
        "worldline bench ope --steps 10000 100000 --json",
        "worldline bench ope --against scope-rl",
    )

    steps: tuple[int, ...] = option(
        (10_000, 100_000, 1_000_000), help="sizes of the logs, 1,000 at least", min_length=1
    )
    tasks: int = option(3553, help="tasks that the episodes are spread over", ge=2)
    replicates: int = option(1000, help="bootstrap resamples", ge=100)
    repeats: int = option(3, help="runs of each size; the fastest counts", ge=1)
    evaluate: int = option(
        1_000_000,
        help="also time the whole command on a log of so many steps and on a tenth, 3 candidates by file; 0: not",
        ge=0,
    )
    against: Literal["", "scope-rl"] = option(
        "", help="instead, the same estimators of SCOPE-RL in this run, on logs of equal episodes: values and time"
    )
    episodes: tuple[int, ...] = option((1_000, 10_000), help="sizes of the logs for --against, in episodes of 20 steps")
    seed: int = option(0, help="decides the logs")


Settings = OpeBenchConfig


def run(settings: OpeBenchConfig) -> Figures:
    """Time and memory at every size; the figures are those of the largest."""
    if settings.against:
        return _against(settings)
    if min(settings.steps) < 1000:
        raise InputError(f"--steps: logs of 1,000 steps at least, got {min(settings.steps)}")
    rows = [_row(steps, settings) for steps in settings.steps]
    largest, smallest = rows[-1], rows[0]
    whole = [
        evaluated(synthetic(n, settings.tasks, settings.seed), WEIGHT_BASED, settings.replicates, settings.seed)
        for n in ((settings.evaluate // 10, settings.evaluate) if settings.evaluate else ())
    ]
    growth = (largest["seconds"] / smallest["seconds"]) / (largest["steps"] / smallest["steps"])
    return Figures(
        {
            "estimators": float(len(WEIGHT_BASED)),
            "seconds": largest["seconds"],
            "cpu_seconds": largest["cpu_seconds"],
            "peak_memory_over_log": largest["peak_memory_over_log"],
            "growth_over_linear": growth,
        }
        | {name: row[name] for row in whole for name in ("evaluate_seconds", "evaluate_peak_gb")}
        | ({"evaluate_peak_growth": whole[1]["evaluate_peak_gb"] / whole[0]["evaluate_peak_gb"]} if whole else {}),
        [*rows, *whole],
    )


def _against(settings: OpeBenchConfig) -> Figures:
    rows: list[dict[str, Any]] = []
    for episodes in settings.episodes:
        rows += scope_rl.compared(
            scope_rl.equal_log(episodes, seed=settings.seed), settings.replicates, settings.repeats
        )
    summaries = [row for row in rows if row["estimator"] == "all"]
    return Figures(
        {
            "largest_difference": max(row["largest_difference"] for row in summaries),
            "times_faster": min(row["times_faster"] for row in summaries),
            "times_faster_with_intervals": min(row["times_faster_with_intervals"] for row in summaries),
        },
        rows,
    )


def _row(steps: int, settings: OpeBenchConfig) -> dict[str, Any]:
    evidence = synthetic(steps, settings.tasks, settings.seed)
    best: tuple[float, float] | None = None
    for _ in range(settings.repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        _work(evidence, settings.replicates)
        took = (time.perf_counter() - wall, time.process_time() - cpu)
        best = took if best is None else min(best, took)
    assert best is not None
    return {
        "steps": evidence.log.steps,
        "episodes": evidence.log.episodes,
        "seconds": best[0],
        "cpu_seconds": best[1],
        "peak_memory_over_log": _memory(evidence, settings.replicates),
    }


def _work(evidence: EstimatorInput, replicates: int) -> None:
    """Everything from the arrays to the intervals; fresh evidence, so that nothing is reused between runs."""
    fresh = EstimatorInput(_uncached(evidence.log), 0.99, target=evidence.target)
    diagnostics(fresh)
    values = estimate(fresh, WEIGHT_BASED).values
    intervals(np.stack(list(values.values()), axis=1), fresh.log.tasks, replicates=replicates)


def _memory(evidence: EstimatorInput, replicates: int) -> float:
    """Peak of the arrays alive, the log's own included, over the log's own."""
    log, target = evidence.log, evidence.target
    assert target is not None
    columns = (log.rewards, log.behaviour, log.offsets, log.tasks, log.policies, log.terminated, target.logprobs)
    own = sum(column.nbytes for column in columns)
    tracemalloc.start()
    _work(evidence, replicates)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (own + peak) / own


def _uncached(log: RaggedLog) -> RaggedLog:
    return RaggedLog(log.rewards, log.behaviour, log.offsets, log.tasks, log.policies, log.terminated)


def synthetic(steps: int, tasks: int, seed: int) -> EstimatorInput:
    """A log of `steps` steps in `steps / 20` episodes of 5 to 60, and a target not far from its logger."""
    rng = np.random.default_rng(seed)
    lengths = 5 + (rng.beta(0.6, 1.6, size=steps // 20) * 56).astype(np.int64)
    while missing := steps - int(lengths.sum()):
        movable = np.flatnonzero((lengths < 60) if missing > 0 else (lengths > 5))[: abs(missing)]
        lengths[movable] += np.sign(missing)
    total = int(lengths.sum())
    behaviour = -rng.exponential(size=total)
    log = RaggedLog(
        rewards=rng.random(total),
        behaviour=behaviour,
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        tasks=rng.integers(0, tasks, size=len(lengths)),
        policies=np.zeros(len(lengths), dtype=np.int64),
        terminated=np.ones(len(lengths), dtype=np.bool_),
    )
    return EstimatorInput(log, 0.99, target=TargetLog(np.minimum(0.0, behaviour + rng.normal(0, 0.1, size=total))))
