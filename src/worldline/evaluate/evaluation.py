"""`evaluate`: a log and candidate policies in; value, interval, rank and reasons for doubt of each, per estimator, out.

The order is that of trust: what the log says about each candidate (diagnostics), what the estimators are worth on this
log (null test, certificate), then the estimates, then, where the truth is known, how well they agreed with it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from worldline.config import suggest
from worldline.evaluate.candidates import Candidate, Watch
from worldline.evaluate.case import Case
from worldline.evaluate.folder import forget, free_path
from worldline.evaluate.result import Estimate, Judged, recommended
from worldline.evaluate.settings import AUTO, DEFAULT, EvaluateConfig, refuse_idle
from worldline.evaluate.truth import truth_of
from worldline.ope.agreement import agreement
from worldline.ope.certificate import Record, Trial, leave_out, null_test, record
from worldline.ope.diagnostics import Diagnostics, diagnostics, distrust
from worldline.ope.evidence import ESTIMATORS, Estimator, Evidence, Values, estimate
from worldline.ope.intervals import Interval, bootstrap_means, intervals
from worldline.ope.log import Episodes
from worldline.ope.predictors import RANK_ONLY, trivial
from worldline.policies import PolicySource
from worldline.types import InputError, Policy

if TYPE_CHECKING:
    from worldline.evaluate.world_model import WorldModelEstimators

WORLD_MODELS = ("adwm", "adwm-paper", "am-dr", "wm-ar", "wm-joint", "wm-knn", "wm-text")
Extra = Callable[[Candidate, Evidence], Mapping[str, Estimator]]
"""More estimators for a candidate, as a world model gives them: added to, or in the place of, those of the table."""


@dataclass(frozen=True)
class Evaluation:
    """What `evaluation.json` holds."""

    policies: list[Judged]
    agreement: dict[str, dict[str, float | None]]
    null: list[Trial]
    trials: list[Trial]
    notes: list[str]
    meta: dict[str, Any]

    def record(self, name: str) -> Record | None:
        """The certificate of one estimator."""
        return record(self.trials, name)

    def value(self, name: str, estimator: str, epsilon: float = 0.0) -> Estimate:
        """The estimate of one candidate."""
        found = [j for j in self.policies if (j.candidate.name, j.candidate.epsilon) == (name, epsilon)]
        if not found or estimator not in found[0].estimates:
            raise InputError(f"no estimate '{estimator}' of policy '{name}' at epsilon {epsilon:g} in this evaluation")
        return found[0].estimates[estimator]

    def as_dict(self) -> dict[str, Any]:
        """The contract's shape; JSON has no infinities and no NaN, and neither has this."""
        return {
            "policies": [judged.as_dict() for judged in self.policies],
            "agreement": self.agreement,
            "meta": self.meta
            | {
                "notes": self.notes,
                "null_test": [_trial_dict(trial) for trial in self.null],
                "certificate": {
                    "trials": [_trial_dict(trial) for trial in self.trials],
                    "record": {n: asdict(r) for n in self.meta["estimators"] if (r := self.record(n)) is not None},
                },
            },
        }


def evaluate(
    config: EvaluateConfig,
    candidates: Mapping[str, Policy | PolicySource] | None = None,
    extra: Extra | None = None,
    watch: Watch = lambda what, done, total: None,
    loggers: Mapping[str, Policy | PolicySource] | None = None,
) -> Evaluation:
    """Evaluate the candidates that `config` names or that are given as objects; `extra` adds estimators from above.

    `loggers` are policies that made the log, given as objects, by their name in it. What a policy says and does is kept
    in `config.cache` if what decides it is known: that of a specification or a `PolicySource`, not of a bare object.
    """
    refuse_idle(config)
    path = free_path(config)
    case = Case(config, candidates or {}, loggers or {}, watch)
    world = _world_model(case)
    forget(config)
    evaluation = judge(case, world, extra)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(evaluation.as_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return evaluation


def judge(case: Case, world: "WorldModelEstimators | None" = None, extra: Extra | None = None) -> Evaluation:
    """The evaluation of a case; what the case has computed already is used again."""
    config = case.config
    if not case.candidates:
        raise InputError("nothing to evaluate: give --policy NAME=SPEC")
    truth, unmatched = truth_of(config.truth, case.candidates)
    case.notes += unmatched
    names = _names(config, world, extra)
    tables = [_table(case, candidate, world, extra) for candidate in case.candidates]
    null, trials = _measured(case, names, world) if config.certificate else ([], [])
    said: list[Values] = []
    judged: list[Judged] = []
    for candidate, (evidence, table) in zip(case.candidates, tables, strict=True):
        said.append(estimate(evidence, names, table))
        seen = diagnostics(evidence, case.text.places)
        found = _estimates(said[-1], seen, evidence, table, config)
        known = truth.get((candidate.name, candidate.epsilon))
        judged.append(Judged(candidate, seen, found, trivial(evidence, candidate.epsilon), known))
        case.watch("estimates", len(judged), len(tables))
    judged = _ranked(judged, names)
    agreed = _agreement(judged, [values.values for values in said], case, names)
    best, why = recommended(names, trials, judged)
    case.notes.append(why)
    meta = _meta(case, names) | {"recommended": best}
    if world is not None and config.sensitivity:
        from worldline.evaluate.world_model import sensitivity

        meta["sensitivity"] = sensitivity(world, case.candidates, config.sensitivity)
    return Evaluation(judged, agreed, null, trials, case.notes, meta)


def _world_model(case: Case) -> "WorldModelEstimators | None":
    """The estimators of --world-model; torch is loaded for them only."""
    if case.config.world_model is None:
        return None
    from worldline.adwm.ensemble import Ensemble
    from worldline.evaluate.world_model import WorldModelEstimators

    ensemble = Ensemble.load(case.config.world_model, case.config.device)
    own, logged = ensemble.members[0].model.facts.env, case.trajectories[0].env
    if own != logged:
        line = f"was fitted on {own}, the log is of {logged}: fit one on this log"
        raise InputError(f"--world-model {case.config.world_model}: {line}")
    return WorldModelEstimators(case, ensemble)


def _names(config: EvaluateConfig, world: "WorldModelEstimators | None", extra: Extra | None) -> list[str]:
    """Checked before anything is computed; what `extra` adds is only known once it has been asked."""
    known = [*ESTIMATORS, *(world.names if world is not None else ())]
    if "all" in config.estimators:
        return known
    wanted: list[str] = []
    for name in config.estimators:
        if name == AUTO:
            wanted += [*DEFAULT, *(world.names if world is not None else ())]
        elif name not in known and extra is None:
            hint = ": it needs --world-model" if name in WORLD_MODELS else suggest(name, known)
            raise InputError(f"--estimators: unknown estimator '{name}'{hint}")
        else:
            wanted.append(name)
    return list(dict.fromkeys(wanted))


def _table(
    case: Case, candidate: Candidate, world: "WorldModelEstimators | None", extra: Extra | None
) -> tuple[Evidence, Mapping[str, Estimator]]:
    evidence = replace(case.evidence, target=case.target(candidate))
    table = ESTIMATORS | (world.table(candidate, evidence) if world is not None else {})
    return evidence, table | dict(extra(candidate, evidence) if extra else {})


def _measured(
    case: Case, names: Sequence[str], world: "WorldModelEstimators | None"
) -> tuple[list[Trial], list[Trial]]:
    """The null test of every logger, and the certificate where there are several."""
    classical = [name for name in names if name in ESTIMATORS]
    null = null_test(case.plain, classical, confidence=case.config.confidence)
    if world is not None:
        null = _joined(null, world.null(names))
    if len(case.log.policy_names) < 2:
        case.notes.append("one policy made the log: no certificate beyond the null test")
        return null, []
    missing = [name for name in case.log.policy_names if name not in case.loggers]
    if missing:
        case.notes.append(
            f"certificate of {', '.join(missing)}: by estimators that are blind to the policy only; "
            "--logger NAME=SPEC says how to ask the policy itself"
        )
    trials = leave_out(case.plain, classical, case.loggers, confidence=case.config.confidence)
    if world is not None and case.config.refit:
        trials = _joined(trials, world.leave_out(names))
    return null, trials


def _joined(trials: Sequence[Trial], more: Sequence[Trial]) -> list[Trial]:
    """The same trials with what other estimators said in them."""
    found = {(trial.policy, trial.pool): trial.estimates for trial in more}
    return [replace(t, estimates=t.estimates | found.get((t.policy, t.pool), {})) for t in trials]


def _estimates(
    said: Values,
    seen: Diagnostics,
    evidence: Evidence,
    table: Mapping[str, Estimator],
    config: EvaluateConfig,
) -> dict[str, Estimate]:
    log = evidence.log
    done = list(said.values)
    columns = np.stack([said.values[name] for name in done], axis=1) if done else np.empty((log.episodes, 0))
    rows = intervals(
        columns, log.tasks, config.interval, config.confidence, config.bootstrap, config.seed, config.bounds
    )
    returns = log.returns(evidence.gamma)
    found: dict[str, Estimate] = {}
    for name, row in zip(done, rows, strict=True):
        row = said.widened(name, row, config.confidence)
        reasons = [distrust(name, said.values[name], seen, returns, table)]
        reasons += [said.doubts[name].caveat] if name in said.doubts else []
        flag = "; ".join(reason for reason in reasons if reason) or None
        found[name] = Estimate(row.value, row.low, row.high, row.n, flag=flag)
    for name, reason in said.refused.items():
        found[name] = Estimate(None, None, None, log.episodes, refused=reason)
    return found


def _ranked(judged: Sequence[Judged], names: Sequence[str]) -> list[Judged]:
    """Rank 1 is the highest value; equal values share a rank."""
    found = [dict(j.estimates) for j in judged]
    for name in names:
        values = [e.value for row in found if (e := row[name]).value is not None]
        for row in found:
            value = row[name].value
            if value is not None:
                row[name] = replace(row[name], rank=1 + sum(other > value for other in values))
    return [replace(j, estimates=estimates) for j, estimates in zip(judged, found, strict=True)]


def _agreement(
    judged: Sequence[Judged], said: Sequence[Mapping[str, Episodes]], case: Case, names: Sequence[str]
) -> dict[str, dict[str, float | None]]:
    """Every estimator and every trivial predictor against the truth, over the candidates each of them judged."""
    measured: dict[str, dict[str, float | None]] = {}
    config = case.config
    for name in names:
        rows = [i for i, j in enumerate(judged) if j.truth is not None and j.estimates[name].value is not None]
        if len(rows) > 1:
            columns = np.stack([said[i][name] for i in rows], axis=1)
            resampled = bootstrap_means(columns, case.log.tasks, config.bootstrap, config.seed)
            found = [judged[i].estimates[name] for i in rows]
            points = [Interval(e.value if e.value is not None else np.nan, e.low, e.high, e.n) for e in found]
            truth = [t for i in rows if (t := judged[i].truth) is not None]
            measured[name] = agreement(points, truth, resampled, config.confidence)
    for name in judged[0].predictors:
        pairs = [(p, j.truth) for j in judged if j.truth is not None and (p := j.predictors[name]) is not None]
        if len(pairs) > 1:
            points = [Interval(value, None, None, case.log.episodes) for value, _ in pairs]
            measured[name] = agreement(points, [t for _, t in pairs], in_units_of_value=name not in RANK_ONLY)
    return measured


def _meta(case: Case, names: Sequence[str]) -> dict[str, Any]:
    config, log = case.config, case.log
    return {
        "log": [str(path) for path in config.log],
        "episodes": log.episodes,
        "steps": log.steps,
        "tasks": len(log.task_names),
        "loggers": list(log.policy_names),
        "estimators": list(names),
        "gamma": config.gamma,
        "interval": config.interval,
        "confidence": config.confidence,
        "bootstrap": config.bootstrap,
        "seed": config.seed,
    }


def _trial_dict(trial: Trial) -> dict[str, Any]:
    return {
        "policy": trial.policy,
        "pool": list(trial.pool),
        "truth": trial.truth,
        "estimates": {name: asdict(found) | {"covers": trial.covers(name)} for name, found in trial.estimates.items()},
        "refused": trial.refused,
    }
