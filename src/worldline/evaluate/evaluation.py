"""`evaluate`: a log and candidate policies in; value, interval, rank and reasons for doubt of each, per estimator, out.

The order is that of trust: what the log can tell about each candidate (diagnostics), what the estimators are worth on
this log (null test, certificate), then the estimates, then, where `--truth` is given, how well they agreed with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from worldline.config import suggest
from worldline.evaluate.breakdown import breakdown
from worldline.evaluate.candidates import Candidate, Watch
from worldline.evaluate.case import Case
from worldline.evaluate.judgement import (
    IntervalSettings,
    Judged,
    LogEvidence,
    compared,
    judged,
    robustness,
    trial_errors,
)
from worldline.evaluate.logged import ON_POLICY, all_logged, check_logged, logged_labels, on_policy, with_own_count
from worldline.evaluate.loggers import grouped, what_gives_trials
from worldline.evaluate.out_folder import reserved, save
from worldline.evaluate.recommendation import CORRECTED, MIXTURE, REFERENCES, WEIGHTED_MODELS, recommend
from worldline.evaluate.result import Evaluation, Meta, Recommendation
from worldline.evaluate.result_parts import (
    Certificate,
    CertificateRecord,
    PolicyResult,
    audit_result,
    check_estimated,
    comparison_result,
    ranked_policies,
    trial_result,
)
from worldline.evaluate.settings import AUTO, DEFAULT, EvaluateConfig, refuse_idle
from worldline.evaluate.spread import spread
from worldline.evaluate.truth import truth_of
from worldline.ope.agreement import agreement
from worldline.ope.audit import Audit
from worldline.ope.certificate import Trial, record
from worldline.ope.estimation import ESTIMATORS, WEIGHTS_ONLY, Estimator, EstimatorInput
from worldline.ope.intervals import Interval, bootstrap_means
from worldline.ope.log import Episodes, TargetLog
from worldline.ope.names import Coded, lean_memory
from worldline.ope.predictors import RANK_ONLY, trivial
from worldline.policies import PolicySource
from worldline.ray_pool import check_engine
from worldline.types import InputError, Policy, Trajectory, policy_label

WORLD_MODELS = REFERENCES | WEIGHTED_MODELS | {MIXTURE}
Extra = Callable[[Candidate, EstimatorInput], Mapping[str, Estimator]]
"""More estimators for a candidate, added to, or in the place of, those of the table."""


class ModelBasedEstimators(Protocol):
    """What an evaluation needs of a world model: `world_model.WorldModelEstimators`, which loads torch, has it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The estimators it adds."""

    def weak_points(self, name: str) -> list[str]:
        """What `fit` said against the model behind an estimator."""

    def table(self, candidate: Candidate, evidence: EstimatorInput) -> dict[str, Estimator]: ...

    def null(self, names: Sequence[str]) -> list[Trial]: ...

    def leave_out(self, names: Sequence[str]) -> list[Trial]: ...

    def sensitivity(self, candidates: Sequence[Candidate], starts: int) -> list[dict[str, Any]]: ...

    def imagined_episodes(self) -> Iterator[Trajectory]: ...

    def close(self) -> None:
        """End the processes it has begun."""


def evaluate(
    config: EvaluateConfig,
    candidates: Mapping[str, Policy | PolicySource] | None = None,
    extra: Extra | None = None,
    watch: Watch = lambda what, done, total: None,
    loggers: Mapping[str, Policy | PolicySource] | None = None,
) -> Evaluation:
    """Evaluate the candidates that `config` names or that are given as objects; `extra` adds estimators from above.

    `loggers` are policies that made the log, given as objects, by their name in it. What a policy says and does is kept
    in `config.cache` for a specification or a `PolicySource`, which have an identity; not for a bare object.
    """
    refuse_idle(config)
    check_engine(config.engine)
    with reserved(config), lean_memory(), spread(config, evaluate, watch) as config:
        case = Case(config, candidates or {}, loggers or {}, watch)
        world = _world_model(case)
        with nullcontext() if world is None else closing(world):
            evaluation = judge(case, world, extra)
        if config.out is not None:
            save(config.out, evaluation, world.imagined_episodes() if world is not None else ())
    return evaluation


def judge(case: Case, world: ModelBasedEstimators | None = None, extra: Extra | None = None) -> Evaluation:
    """The evaluation of a case; what the case has computed already is used again."""
    config = case.config
    if not case.candidates:
        raise InputError("nothing to evaluate: give --policy NAME=SPEC")
    truth, unmatched = truth_of(config.truth, case.candidates)
    case.notes += unmatched
    case.notes += check_logged(case.candidates, case.log, config.interval)
    specs = [candidate.spec for candidate in case.candidates]
    case.notes += case.policies.uncached([*specs, *(spec for _, spec, _ in case.logger_specs.values())])
    names = _names(case, world, extra)
    weak_points = {name: world.weak_points(name) for name in names} if world is not None else {}
    case.notes += dict.fromkeys(f"fit warned: {point}" for points in weak_points.values() for point in points)
    groups = case.columns.groups(config.by) if config.by else Coded(case.log.tasks, ())
    how = IntervalSettings(config.interval, config.confidence, config.bootstrap, config.seed, config.bounds)

    # what the log can tell about the candidates, and what the estimators are worth on it
    targets = _targets(case, names, world, extra)
    given = case.evidence(_reads_text(case, names, world, extra))
    checked = given.audited({label: target for label, target in targets.items() if target is not None})
    case.notes += [f"audit: {reason}" for reason in checked.reasons]
    evidence, note = given.weighted(checked.tasks)
    case.notes += [note] if note else []
    null, trials = _measured(case, names, given, checked, how, world)
    errors = trial_errors(trials, [name for name in names if name in ESTIMATORS])

    # the estimates
    inputs = {label: evidence.aimed(target) for label, target in targets.items()}
    judgements: dict[str, Judged] = {}
    policies: list[PolicyResult] = []
    in_log = logged_labels(case.candidates)
    means_of = {label: on_policy(own, names, checked.tasks != "apart") for label, own in in_log.items()}
    for candidate in case.candidates:
        own = inputs[candidate.label]
        table = _table(candidate, own, world, extra)
        means = means_of.get(candidate.label, {})
        judgement = judged(own, names, {**table, **means}, how, checked.reasons, errors, given.places)
        if means:
            judgement = with_own_count(judgement, in_log[candidate.label], list(means), case.log, config.gamma)
        judgements[candidate.label] = judgement
        policies.append(_policy_result(candidate, own, judgement, truth.get((candidate.name, candidate.epsilon))))
        case.watch("estimates", len(policies), len(case.candidates))
    check_estimated(policies)
    policies = ranked_policies(policies, names)
    agreed = _agreement(policies, [each.values.values for each in judgements.values()], case, names)

    # which to go by, and what follows from it
    to_try = what_gives_trials(case.log.policy_names, case.logger_specs, config.certificate)
    recommended = recommend(names, trials, policies, checked, in_log, weak_points, to_try)
    decisive = recommended.estimator if isinstance(recommended, Recommendation) else None
    comparison = robust = split = None
    if decisive is not None:
        relied_on = {label: each for label, each in judgements.items() if not each.estimates[decisive].flag}
        comparison = compared(relied_on, decisive, evidence, how, list(in_log.values()))
        robust = robustness(relied_on, decisive, inputs)
    elif config.by:
        case.notes.append(f"--by {config.by}: no groups are shown, because no estimator is recommended")
    by_group = MIXTURE if decisive == CORRECTED and MIXTURE in names else decisive  # its values are of the whole log
    if config.by and by_group and by_group != CORRECTED:
        split = breakdown(config.by, groups, by_group, inputs, judgements, how, checked.reasons, means_of, errors)

    meta = _meta(case, names, null, trials)
    if not isinstance(recommended, Recommendation):
        meta = meta.model_copy(update={"no_recommendation": recommended})
    if world is not None and config.sensitivity:
        meta = meta.model_copy(update={"sensitivity": world.sensitivity(case.candidates, config.sensitivity)})
    return Evaluation(
        policies=tuple(policies),
        comparison=comparison_result(decisive, comparison, robust) if decisive and comparison is not None else None,
        breakdown=split,
        agreement=agreed,
        recommended=recommended if isinstance(recommended, Recommendation) else None,
        warnings=tuple(case.notes),
        audit=audit_result(checked),
        meta=meta,
    )


def _world_model(case: Case) -> ModelBasedEstimators | None:
    """The estimators of --world-model; torch is loaded for them only."""
    if case.config.world_model is None:
        return None
    from worldline.adwm.ensemble import Ensemble
    from worldline.evaluate.world_model import WorldModelEstimators

    ensemble = Ensemble.load(case.config.world_model, case.config.device)
    if case.config.sensitivity and not ensemble.members:
        raise InputError("--sensitivity: needs adwm's networks; this world model was fitted with --members 0")
    own, logged = ensemble.facts.env, case.trajectories[0].env
    if own != logged:
        line = f"was fitted on {own}, the log is of {logged}: fit one on this log"
        raise InputError(f"--world-model {case.config.world_model}: {line}")
    unseen = 0 if ensemble.sample else len({*map(_mark, case.trajectories)} - {*map(_mark, ensemble.episodes)})
    if unseen:
        case.notes.append(
            f"--world-model {case.config.world_model}: was not fitted on {unseen:,} of the log's "
            f"{len(case.trajectories):,} episodes, and what was measured of it is of another log: fit one on this log"
        )
    return WorldModelEstimators(case, ensemble)


def _mark(episode: Trajectory) -> tuple[str, str, int, int]:
    """What tells one logged episode from another, and from a later one of the same name."""
    return episode.id, policy_label(episode.policy, episode.epsilon), episode.seed, len(episode)


def _names(case: Case, world: ModelBasedEstimators | None, extra: Extra | None) -> list[str]:
    """The estimators, checked before anything is computed; `extra` adds its names only when it is called."""
    config = case.config
    if config.estimators == (AUTO,) and all_logged(case.candidates):
        return [ON_POLICY]
    available = [*ESTIMATORS, *(world.names if world is not None else ())]
    if "all" in config.estimators:
        return available
    wanted: list[str] = []
    for name in config.estimators:
        if name == AUTO:
            wanted += [*DEFAULT, *(world.names if world is not None else ())]
        elif name not in available and extra is None:
            hint = suggest(name, available)
            if name in WORLD_MODELS:
                hint = ": it needs --world-model" if world is None else ": this world model was fitted without it"
            raise InputError(f"--estimators: unknown estimator '{name}'{hint}")
        else:
            wanted.append(name)
    return list(dict.fromkeys(wanted))


def _targets(
    case: Case, names: Sequence[str], world: ModelBasedEstimators | None, extra: Extra | None
) -> dict[str, TargetLog | None]:
    """Each candidate's log-probs; none where no estimator of `names` needs them: scoring a log can take long."""
    table = _table(case.candidates[0], case.plain, world, None)
    scored = extra is not None or any(name in table and table[name].needs for name in names)
    return {candidate.label: case.target(candidate) if scored else None for candidate in case.candidates}


def _reads_text(case: Case, names: Sequence[str], world: ModelBasedEstimators | None, extra: Extra | None) -> bool:
    """Whether anything needs the words of the log; a log of log-probs alone is judged by its columns."""
    if world is not None or extra is not None or any(case.config.epsilon):
        return True
    textual = any(set(ESTIMATORS[name].needs) - WEIGHTS_ONLY for name in names if name in ESTIMATORS)
    return textual or any(candidate.load is not None for candidate in case.candidates)


def _table(
    candidate: Candidate, evidence: EstimatorInput, world: ModelBasedEstimators | None, extra: Extra | None
) -> Mapping[str, Estimator]:
    table = ESTIMATORS | (world.table(candidate, evidence) if world is not None else {})
    return table | dict(extra(candidate, evidence) if extra else {})


def _measured(
    case: Case,
    names: Sequence[str],
    given: LogEvidence,
    checked: Audit,
    how: IntervalSettings,
    world: ModelBasedEstimators | None,
) -> tuple[list[Trial], list[Trial]]:
    """The null test of every logger, and the certificate where there are several; none for logged candidates only."""
    if not case.config.certificate or all_logged(case.candidates):
        return [], []
    classical = [name for name in names if name in ESTIMATORS]
    null = given.null(classical, how)
    if world is not None:
        null = _joined(null, world.null(names))
    if len(case.log.policy_names) < 2:
        case.notes.append("one policy made the log: the null test is the only certificate")
        return null, []
    missing = [name for name in case.log.policy_names if name not in given.loggers]
    unused = {name: f"needs the log-probs of {name}, which {case.why_unused(name)}" for name in missing}
    for reason, labels in grouped(missing, case.why_unused).items():
        case.notes.append(
            f"certificate of {', '.join(labels)}: only of estimators that ignore the policy, because the policy "
            f"itself {reason}"
        )
    if checked.tasks == "unknown":
        case.notes.append(
            "no task or start occurs often enough to show whether the loggers share their tasks: that a trial of the "
            "certificate missed may be due to other tasks"
        )
    if checked.tasks == "apart":
        case.notes.append(
            "the loggers do not share their tasks: the certificate is on the tasks they have in common, if any, and "
            "weights are not balanced over them"
        )
    trials = [_explained(one, unused) for one in given.leave_out(classical, checked.tasks, how)]
    if world is not None and case.config.refit and checked.tasks != "apart":
        trials = _joined(trials, world.leave_out(names))
    return null, trials


def _explained(trial: Trial, reasons: Mapping[str, str]) -> Trial:
    """A trial of a logger whose own policy is not used, by the reasons why: so says what needs it."""
    reason = reasons.get(trial.policy)
    return trial if reason is None else replace(trial, refused=dict.fromkeys(trial.refused, reason))


def _joined(trials: Sequence[Trial], more: Sequence[Trial]) -> list[Trial]:
    """The same trials, with the estimates of other estimators."""
    added = {(trial.policy, trial.pool): trial.estimates for trial in more}
    return [replace(t, estimates=t.estimates | added.get((t.policy, t.pool), {})) for t in trials]


def _policy_result(candidate: Candidate, own: EstimatorInput, judgement: Judged, truth: float | None) -> PolicyResult:
    return PolicyResult(
        name=candidate.name,
        epsilon=candidate.epsilon,
        estimates=judgement.estimates,
        predictors=trivial(own, candidate.epsilon),
        diagnostics=judgement.diagnostics,
        truth=truth,
    )


def _agreement(
    policies: Sequence[PolicyResult], values: Sequence[Mapping[str, Episodes]], case: Case, names: Sequence[str]
) -> dict[str, dict[str, float | None]]:
    """Every estimator and every trivial predictor against the truth, over the candidates each of them valued."""
    measured: dict[str, dict[str, float | None]] = {}
    config = case.config
    for name in names:
        rows = [i for i, p in enumerate(policies) if p.truth is not None and p.estimates[name].value is not None]
        if len(rows) > 1:
            columns = np.stack([values[i][name] for i in rows], axis=1)
            resampled = bootstrap_means(columns, case.log.tasks, config.bootstrap, config.seed)
            estimates = [policies[i].estimates[name] for i in rows]
            points = [Interval(e.value if e.value is not None else np.nan, e.low, e.high, e.n) for e in estimates]
            truth = [t for i in rows if (t := policies[i].truth) is not None]
            measured[name] = agreement(points, truth, resampled, config.confidence)
    for name in policies[0].predictors:
        pairs = [(v, p.truth) for p in policies if p.truth is not None and (v := p.predictors[name]) is not None]
        if len(pairs) > 1:
            points = [Interval(value, None, None, case.log.episodes) for value, _ in pairs]
            measured[name] = agreement(points, [t for _, t in pairs], in_units_of_value=name not in RANK_ONLY)
    return measured


def _meta(case: Case, names: Sequence[str], null: Sequence[Trial], trials: Sequence[Trial]) -> Meta:
    config, log = case.config, case.log
    records = {name: CertificateRecord.model_validate(r) for name in names if (r := record(trials, name)) is not None}
    return Meta(
        log=tuple(str(path) for path in config.log),
        episodes=log.episodes,
        steps=log.steps,
        tasks=len(np.unique(log.tasks)),
        loggers=log.policy_names,
        estimators=tuple(names),
        gamma=config.gamma,
        interval=config.interval,
        confidence=config.confidence,
        bootstrap=config.bootstrap,
        seed=config.seed,
        null_test=tuple(trial_result(trial) for trial in null),
        certificate=Certificate(trials=tuple(trial_result(trial) for trial in trials), record=records),
    )
