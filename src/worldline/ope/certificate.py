"""The accuracy of an estimator on this very log, measured on the policies that made it (ADWM notes, section 4.7).

The null test estimates a logging policy from its own episodes: its logged value must lie in the interval. The
certificate estimates each logging policy from the episodes of others. The others are a fixed pool, the same for all
policies that are compared: if each policy were left out of the pool in turn, the pool's mean would be high exactly when
the policy left out is bad, and an estimator that depends on that mean would look anti-correlated with the truth.
So the loggers are split into two halves, each estimated from the other, and ranks are compared within a half only.

What is known of a logger is the mean of its own episodes, which has an error of its own: an interval covers it where it
would with that error added, and its variance is taken off the squared error of an estimate.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from worldline.ope.agreement import pairwise_accuracy
from worldline.ope.audit import Sharing
from worldline.ope.estimation import ESTIMATORS, WEIGHTED, WEIGHTS_ONLY, Estimator, EstimatorInput
from worldline.ope.intervals import Interval, interval, task_units, widened
from worldline.ope.log import Choices, Codes, Episodes, RefusalError, TargetLog
from worldline.ope.model_error import estimated
from worldline.ope.weights import mixture_logprobs

CONFIDENCE = 0.95
FEWEST_EPISODES = 2
"""Of a logger and of its pool, for a trial."""


@dataclass(frozen=True)
class Trial:
    """A logger estimated as a target: `pool` names the loggers whose episodes were used, `truth` is its mean return.

    In the null test that mean itself must come back; elsewhere it stands for the logger's value, with `truth_error`.
    """

    policy: str
    pool: tuple[str, ...]
    truth: float
    estimates: dict[str, Interval]
    refused: dict[str, str]
    truth_error: float = 0.0
    """Standard error of `truth` as the logger's value, by tasks; 0 in the null test."""
    truth_episodes: int = 0
    """Whose mean it is."""
    confidence: float = CONFIDENCE
    """Of the intervals."""

    def covers(self, name: str) -> bool | None:
        """Whether the truth lies in the interval, widened by the truth's own error; None without an interval."""
        return widened(self.estimates[name], self.truth_error, self.confidence).covers(self.truth)

    def error(self, name: str) -> float:
        """How far off the estimate is, less what the truth itself may be off by."""
        squared = (self.estimates[name].value - self.truth) ** 2 - self.truth_error**2
        return float(np.sqrt(max(0.0, squared)))


@dataclass(frozen=True)
class CertifiedAccuracy:
    """The accuracy of an estimator over all trials."""

    trials: int
    mae: float
    bias: float
    coverage: float | None
    """Share of the trials with an interval whose truth lies in it."""
    pairwise: float | None
    """Share of policy pairs with the same pool that were put in the right order."""


def null_test(
    evidence: EstimatorInput,
    names: Sequence[str],
    estimators: Mapping[str, Estimator] = ESTIMATORS,
    confidence: float = CONFIDENCE,
) -> list[Trial]:
    """Each logger, from its own episodes, as its own target: ratio 1, and the action it took as the action it takes."""
    log = evidence.log
    textual = any(set(estimators[name].needs) - WEIGHTS_ONLY for name in names)
    itself = None
    if textual:
        own = evidence.features.logged if evidence.text else np.zeros(log.steps, dtype=np.int64)
        itself = Choices(np.zeros(log.steps), own, np.arange(log.steps + 1))
    logged = log.each_step(lambda part, _: np.nan_to_num(part.behaviour))
    on_policy = replace(evidence, target=TargetLog(logged, itself))
    trials: list[Trial] = []
    for k in np.unique(log.policies):
        own, name = np.flatnonzero(log.policies == k), log.policy_names[k]
        trials.append(_trial(name, (name,), on_policy.take(own), _mean(evidence, own), names, estimators, confidence))
    return trials


def leave_out(
    evidence: EstimatorInput,
    names: Sequence[str],
    loggers: Mapping[str, TargetLog],
    estimators: Mapping[str, Estimator] = ESTIMATORS,
    confidence: float = CONFIDENCE,
    tasks: Sharing = "shared",
) -> list[Trial]:
    """Each logger from the fixed pool that it is no part of.

    `loggers` holds their log-probs on the whole log; a missing one is estimated only by estimators that ignore the
    target. Where the pool's mixture gives a logged action probability 0, estimators that weight by it refuse. Where
    loggers do not share their tasks, a trial is on the tasks that logger and pool have in common, and there is none
    without such: the value on other tasks is another value. Where nothing shows whether they do, a trial is
    as if they did, without balanced weights: other tasks make it miss, and what missed every trial is not recommended.
    """
    log = evidence.log
    trials: list[Trial] = []
    present = np.unique(log.policies)
    for held, pool in ((present[::2], present[1::2]), (present[1::2], present[::2])):
        if not len(pool):
            continue
        pool_names = tuple(log.policy_names[k] for k in pool)
        for k in held:
            own, used = np.flatnonzero(log.policies == k), np.flatnonzero(np.isin(log.policies, pool))
            if tasks == "apart":
                common = np.intersect1d(log.tasks[own], log.tasks[used])
                own, used = own[np.isin(log.tasks[own], common)], used[np.isin(log.tasks[used], common)]
            if min(len(own), len(used)) < FEWEST_EPISODES:
                continue
            aimed, refused = evidence.aimed(loggers.get(log.policy_names[k])), dict[str, str]()
            try:
                held_out = pooled(evidence, int(k), pool, loggers) if tasks == "shared" else aimed.take(used)
            except RefusalError as reason:
                held_out = aimed.take(used)
                refused = {name: str(reason) for name in names if WEIGHTED & set(estimators[name].needs)}
            able = [name for name in names if name not in refused]
            trial = _trial(
                log.policy_names[k], pool_names, held_out, _mean(evidence, own), able, estimators, confidence
            )
            error = standard_error(log.returns(evidence.gamma)[own], log.tasks[own])
            trials.append(replace(trial, refused=trial.refused | refused, truth_error=error, truth_episodes=len(own)))
    return trials


def pooled(
    evidence: EstimatorInput, held: int, pool: npt.NDArray[np.int64], loggers: Mapping[str, TargetLog]
) -> EstimatorInput:
    """The episodes of the pool with the logger `held` as the target: what a trial estimates it from.

    Where the pool's loggers are all given, their mixture is the behaviour policy.
    """
    log = evidence.log
    used, names = np.flatnonzero(np.isin(log.policies, pool)), [log.policy_names[k] for k in pool]
    held_out = replace(evidence, target=loggers.get(log.policy_names[held])).take(used)
    if len(pool) < 2 or not all(name in loggers for name in names):
        return held_out
    return balanced(held_out, [log.gather(loggers[name].logprobs, used) for name in names], pool)


def balanced(
    evidence: EstimatorInput, loggers: Sequence[npt.NDArray[np.float64]], codes: Iterable[int]
) -> EstimatorInput:
    """The same input with the mixture of its loggers as the behaviour policy: balance-heuristic weights."""
    log = evidence.log
    position = {int(code): index for index, code in enumerate(codes)}
    present, inverse = np.unique(log.policies, return_inverse=True)
    renumbered = replace(log, policies=np.array([position[int(k)] for k in present], dtype=np.int64)[inverse])
    return replace(evidence, log=replace(log, behaviour=mixture_logprobs(renumbered, loggers)))


def record(trials: Sequence[Trial], name: str) -> CertifiedAccuracy | None:
    """The certificate of one estimator; None if it refused every trial."""
    done = [trial for trial in trials if name in trial.estimates]
    if not done:
        return None
    errors = np.array([trial.estimates[name].value - trial.truth for trial in done])
    covered = [hit for trial in done if (hit := trial.covers(name)) is not None]
    pools = {trial.pool for trial in done}
    ranked = [_pairwise([t for t in done if t.pool == pool], name) for pool in pools]
    accuracies = [accuracy for accuracy in ranked if accuracy is not None]
    return CertifiedAccuracy(
        trials=len(done),
        mae=float(np.mean([trial.error(name) for trial in done])),
        bias=float(errors.mean()),
        coverage=float(np.mean(covered)) if covered else None,
        pairwise=float(np.mean(accuracies)) if accuracies else None,
    )


def comparable(trials: Sequence[Trial], names: Sequence[str]) -> dict[str, float]:
    """The certified errors that can be compared: of the estimators that answered every trial that any answered.

    An estimator that refuses the hard trials would otherwise be measured on the easy ones only, and win.
    """
    answered = {name: [name in trial.estimates for trial in trials] for name in names}
    anyone = [any(answers) for answers in zip(*answered.values(), strict=True)]
    records = {name: record(trials, name) for name in names if answered[name] == anyone}
    return {name: done.mae for name, done in records.items() if done is not None}


def _pairwise(trials: Sequence[Trial], name: str) -> float | None:
    estimated = np.array([trial.estimates[name].value for trial in trials])
    return pairwise_accuracy(estimated, np.array([trial.truth for trial in trials]))


def standard_error(values: Episodes, tasks: Codes) -> float:
    """Of the mean of a policy's own episodes, by tasks; by episodes where they are all of one."""
    units = task_units(values[:, None], tasks)
    return float(units.std(ddof=1) / np.sqrt(len(units))) if len(units) > 1 else 0.0


def _mean(evidence: EstimatorInput, episodes: npt.NDArray[np.int64]) -> float:
    return float(evidence.log.returns(evidence.gamma)[episodes].mean())


def _trial(
    policy: str,
    pool: tuple[str, ...],
    evidence: EstimatorInput,
    truth: float,
    names: Sequence[str],
    estimators: Mapping[str, Estimator],
    confidence: float,
) -> Trial:
    results, tasks = estimated(evidence, names, estimators), evidence.log.tasks
    estimates = {
        name: results.widened(name, interval(values, tasks, confidence=confidence, seed=evidence.seed), confidence)
        for name, values in results.values.items()
    }
    return Trial(policy, pool, truth, estimates, results.refused, confidence=confidence)
