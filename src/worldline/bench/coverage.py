"""Do intervals hold the truth, do flags fire where they should? Hundreds of logs of a small MDP with exact values.

Every log goes through the judgement of `evaluate`: audit, certificate, estimates, flags, comparison, recommendation;
no log folder is written. Settings were chosen on the logs of seeds 0 to 199; the default seeds are others.
"""

import json
import os
import sys
from collections.abc import Container
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from worldline import files
from worldline.bench import Figures
from worldline.bench.coverage_figures import NETWORK, summary
from worldline.bench.small_mdp import ACTIONS, KINDS, STATES, LoggedSituation, equal_candidates
from worldline.config import Config, Folder, option
from worldline.evaluate.judgement import IntervalSettings, LogEvidence, compared, judged, trial_errors
from worldline.evaluate.recommendation import recommend
from worldline.evaluate.result import Recommendation
from worldline.evaluate.result_parts import PolicyResult
from worldline.ope.comparison import Comparison
from worldline.ope.estimation import ESTIMATORS, EstimatorInput
from worldline.types import InputError
from worldline.worker_pool import run_all, worker_pool

ESTIMATED = tuple(name for name in ESTIMATORS if name != NETWORK)
"""All but the network, which takes 3 to 50 seconds per log."""
EQUAL = "ten equal candidates"
REFERENCE = "wdr"
"""The estimator whose comparisons are judged where every candidate must have a value."""


class CoverageBenchConfig(Config):
    """Coverage of the 95 % intervals, silent errors, false flags, calibration of P(a > b), the winner's bias, and the
    recommendation against every constant choice, per estimator, situation and number of episodes.
    """

    examples: ClassVar[tuple[str, ...]] = (
        "worldline bench coverage --json",
        "worldline bench coverage --logs 10 --sizes 50 200 --out runs/coverage",
    )

    logs: int = option(40, help="logs of each kind and size", ge=2)
    sizes: tuple[int, ...] = option((50, 200, 1000), help="episodes of a log, 20 at least", min_length=1)
    kinds: tuple[str, ...] = option(tuple(KINDS), help="situations: see the table")
    network: int = option(0, help="logs of each kind and size on which fqe is judged too: up to a minute each", ge=0)
    equal: int = option(200, help="logs with ten candidates of equal value, for the winner's bias; 0: none", ge=0)
    first_seed: int = option(1000, help="seed of the first log; settings were chosen on seeds below 200", ge=0)
    replicates: int = option(1000, help="bootstrap resamples", ge=100)
    jobs: int = option(os.cpu_count() or 1, help="processes that share the work", ge=1)
    engine: str = option(
        "local", help="whose processes: local, ray (of $RAY_ADDRESS, else one of its own), ray://HOST:PORT"
    )
    out: Folder = option(Path("bench-coverage"), help="folder of what is finished: used again")


Settings = CoverageBenchConfig


def run(settings: CoverageBenchConfig) -> Figures:
    """All cells, each kept as soon as it is finished; then the tables."""
    for kind in settings.kinds:
        if kind not in KINDS:
            raise InputError(f"--kinds: unknown '{kind}': there are {', '.join(KINDS)}")
    if min(settings.sizes) < 20:
        raise InputError(f"--sizes: logs of 20 episodes at least, got {min(settings.sizes)}")
    if settings.network > settings.logs:
        raise InputError(f"--network {settings.network}: there are {settings.logs} logs of each kind and size (--logs)")
    cells = [(kind, n, settings.logs) for n in sorted(settings.sizes, reverse=True) for kind in settings.kinds]
    cells += [(EQUAL, 200, settings.equal)] if settings.equal else []
    missing = [cell for cell in cells if not _path(settings, *cell).is_file()]
    with worker_pool(settings.jobs, settings.engine) as pool:
        run_all(pool, {f"{kind}, {n}": partial(_cell, settings, kind, n, logs) for kind, n, logs in missing}, _watch)
    rows = [row for cell in cells for row in json.loads(_path(settings, *cell).read_text(encoding="utf-8"))]
    return summary(rows)


def _watch(done: int, total: int, name: str) -> None:
    print(f"{done}/{total} {name}", file=sys.stderr, flush=True)


def _path(settings: CoverageBenchConfig, kind: str, n: int, logs: int) -> Path:
    seeds = f"{settings.first_seed}-{settings.first_seed + logs - 1}"
    network = f"-fqe{settings.network}" if settings.network and kind != EQUAL else ""
    return settings.out / f"{kind.replace(' ', '-')}-{n}-{seeds}-{settings.replicates}{network}.json"


def _cell(settings: CoverageBenchConfig, kind: str, n: int, logs: int) -> None:
    """The rows of all logs of one kind and size."""
    rows: list[dict[str, Any]] = []
    make = equal_candidates if kind == EQUAL else KINDS[kind]
    for seed in range(settings.first_seed, settings.first_seed + logs):
        order = list(KINDS).index(kind) if kind in KINDS else len(KINDS)
        situation = make(np.random.default_rng([seed, order, n]), n)
        names = (REFERENCE,) if kind == EQUAL else ESTIMATED
        if kind != EQUAL and seed - settings.first_seed < settings.network:
            names = (*names, NETWORK)
        rows.append({"kind": kind, "n": n, "seed": seed} | judge(situation, names, settings.replicates))
    files.write_json(_path(settings, kind, n, logs), rows)


def judge(situation: LoggedSituation, names: tuple[str, ...], replicates: int = 1000) -> dict[str, Any]:
    """What `evaluate` says of one log, beside the truth."""
    features = situation.played.features()
    plain = EstimatorInput(situation.log, 1.0, text=lambda: features)
    targets = {name: situation.played.target(policy) for name, policy in situation.candidates.items()}
    loggers = {name: situation.played.target(policy) for name, policy in situation.loggers.items()}
    chance = situation.played.target(np.full((STATES, ACTIONS), 1 / ACTIONS)).logprobs
    given = LogEvidence(plain, loggers, situation.played.state, chance=chance)
    how = IntervalSettings(replicates=replicates)
    audit = given.audited(targets)
    evidence, _ = given.weighted(audit.tasks)
    trials = given.leave_out(names, audit.tasks, how) if loggers else []
    errors = trial_errors(trials, names)
    judgements = {
        label: judged(evidence.aimed(target), names, ESTIMATORS, how, audit.reasons, errors, given.places)
        for label, target in targets.items()
    }
    policies = [
        PolicyResult(name=label, estimates=each.estimates, diagnostics=each.diagnostics)
        for label, each in judgements.items()
    ]
    recommended = recommend(names, trials, policies, audit)
    by = recommended.estimator if isinstance(recommended, Recommendation) else None
    comparison = compared(judgements, REFERENCE, evidence, how)
    return {
        "truth": situation.truth,
        "behaviour": float(situation.log.returns(1.0).mean()),
        "estimates": {
            label: {
                name: [e.value, e.low, e.high, bool(e.flag)]
                for name, e in each.estimates.items()
                if e.value is not None
            }
            for label, each in judgements.items()
        },
        "recommended": by,
        **_comparison_columns(comparison, targets),
    }


def _comparison_columns(comparison: Comparison | None, candidates: Container[str]) -> dict[str, Any]:
    """P(a > b) and the interval of the difference of every pair of candidates, and the winner."""
    if comparison is None:
        return {"pairs": [], "differences": [], "winner": None}
    differences = [difference for difference in comparison.differences if difference.b in candidates]
    winner = comparison.winner
    return {
        "pairs": [[d.a, d.b, d.p] for d in differences],
        "differences": [[d.a, d.b, d.low, d.high] for d in differences],
        "winner": [winner.policy, winner.value, winner.corrected],
    }
