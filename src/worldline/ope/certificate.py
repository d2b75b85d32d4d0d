"""What an estimator is worth on this very log, measured before anyone trusts it (ADWM notes, section 4.7).

The null test asks for the value of a policy that logged: the answer is known and must lie in the interval. The
certificate estimates each logging policy from the episodes of others. The others are a fixed pool, the same for all
policies that are compared: were each policy left out of the pool in turn, the pool's mean would be high exactly when
the policy left out is bad, and whatever leans on that mean would look anti-correlated with the truth by construction.
So the loggers are cut in two halves, each estimated from the other, and ranks are compared within a half only.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from worldline.ope.agreement import pairwise_accuracy
from worldline.ope.evidence import ESTIMATORS, WEIGHTED, Estimator, Evidence, estimate
from worldline.ope.intervals import Interval, interval
from worldline.ope.log import Choices, RefusalError, TargetLog
from worldline.ope.weights import mixture_logprobs

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Trial:
    """A logger estimated as if unknown: `pool` names whose episodes were used, `truth` is its own mean return."""

    policy: str
    pool: tuple[str, ...]
    truth: float
    estimates: dict[str, Interval]
    refused: dict[str, str]

    def covers(self, name: str) -> bool | None:
        """Whether the truth lies in the interval; None where there is no interval that it could miss."""
        found = self.estimates[name]
        if found.low is None and found.high is None:
            return None
        slack = 1e-9 * max(1.0, abs(self.truth))
        above = found.low is None or self.truth >= found.low - slack
        return above and (found.high is None or self.truth <= found.high + slack)


@dataclass(frozen=True)
class Record:
    """How an estimator did over all trials."""

    trials: int
    mae: float
    bias: float
    coverage: float | None
    """Of the trials that gave an interval."""
    pairwise: float | None
    """Share of policy pairs with the same pool that were put in the right order."""


def null_test(
    evidence: Evidence,
    names: Sequence[str],
    estimators: Mapping[str, Estimator] = ESTIMATORS,
    confidence: float = CONFIDENCE,
) -> list[Trial]:
    """Each logger, from its own episodes, as its own target: ratio 1, and the action it took as the action it takes."""
    log = evidence.log
    own = evidence.features.logged if evidence.text else np.zeros(log.steps, dtype=np.int64)
    itself = Choices(np.zeros(log.steps), own, np.arange(log.steps + 1))
    on_policy = replace(evidence, target=TargetLog(np.nan_to_num(log.behaviour), itself))
    trials: list[Trial] = []
    for k in np.unique(log.policies):
        own, name = np.flatnonzero(log.policies == k), log.policy_names[k]
        trials.append(_trial(name, (name,), on_policy.take(own), _mean(evidence, own), names, estimators, confidence))
    return trials


def leave_out(
    evidence: Evidence,
    names: Sequence[str],
    loggers: Mapping[str, TargetLog],
    estimators: Mapping[str, Estimator] = ESTIMATORS,
    confidence: float = CONFIDENCE,
) -> list[Trial]:
    """Each logger from the fixed pool that it is no part of.

    `loggers` holds their log-probs on the whole log; one that is missing is estimated by what is blind to the target.
    Where the pool's mixture makes no sense, what weighs by it refuses.
    """
    log = evidence.log
    trials: list[Trial] = []
    present = np.unique(log.policies)
    for held, pool in ((present[::2], present[1::2]), (present[1::2], present[::2])):
        if not len(pool):
            continue
        used, pool_names = np.flatnonzero(np.isin(log.policies, pool)), tuple(log.policy_names[k] for k in pool)
        for k in held:
            asked, refused = replace(evidence, target=loggers.get(log.policy_names[k])).take(used), {}
            if all(name in loggers for name in pool_names) and len(pool) > 1:
                try:
                    asked = balanced(asked, [loggers[name].logprobs[log.step_rows(used)] for name in pool_names], pool)
                except RefusalError as reason:
                    refused = {name: str(reason) for name in names if WEIGHTED & set(estimators[name].needs)}
            truth = _mean(evidence, np.flatnonzero(log.policies == k))
            able = [name for name in names if name not in refused]
            trial = _trial(log.policy_names[k], pool_names, asked, truth, able, estimators, confidence)
            trials.append(replace(trial, refused=trial.refused | refused))
    return trials


def balanced(evidence: Evidence, loggers: Sequence[npt.NDArray[np.float64]], codes: Iterable[int]) -> Evidence:
    """The same evidence with the mixture of its loggers as the behaviour: balance-heuristic weights."""
    log = evidence.log
    position = {int(code): index for index, code in enumerate(codes)}
    renumbered = replace(log, policies=np.array([position[int(k)] for k in log.policies], dtype=np.int64))
    return replace(evidence, log=replace(log, behaviour=mixture_logprobs(renumbered, np.stack(loggers))))


def record(trials: Sequence[Trial], name: str) -> Record | None:
    """The sum of the trials of one estimator; None where it always refused."""
    done = [trial for trial in trials if name in trial.estimates]
    if not done:
        return None
    errors = np.array([trial.estimates[name].value - trial.truth for trial in done])
    covered = [hit for trial in done if (hit := trial.covers(name)) is not None]
    pools = {trial.pool for trial in done}
    ranked = [_pairwise([t for t in done if t.pool == pool], name) for pool in pools]
    known = [accuracy for accuracy in ranked if accuracy is not None]
    return Record(
        trials=len(done),
        mae=float(np.abs(errors).mean()),
        bias=float(errors.mean()),
        coverage=float(np.mean(covered)) if covered else None,
        pairwise=float(np.mean(known)) if known else None,
    )


def comparable(trials: Sequence[Trial], names: Sequence[str]) -> dict[str, float]:
    """The certified errors that can be compared: of those estimators that answered every trial that any answered.

    Who refuses the hard trials would else be measured on the easy ones only, and win.
    """
    answered = {name: [name in trial.estimates for trial in trials] for name in names}
    asked = [any(said) for said in zip(*answered.values(), strict=True)]
    found = {name: record(trials, name) for name in names if answered[name] == asked}
    return {name: done.mae for name, done in found.items() if done is not None}


def _pairwise(trials: Sequence[Trial], name: str) -> float | None:
    said = np.array([trial.estimates[name].value for trial in trials])
    return pairwise_accuracy(said, np.array([trial.truth for trial in trials]))


def _mean(evidence: Evidence, episodes: npt.NDArray[np.int64]) -> float:
    return float(evidence.log.returns(evidence.gamma)[episodes].mean())


def _trial(
    policy: str,
    pool: tuple[str, ...],
    asked: Evidence,
    truth: float,
    names: Sequence[str],
    estimators: Mapping[str, Estimator],
    confidence: float,
) -> Trial:
    said = estimate(asked, names, estimators)
    found = {
        name: said.widened(name, interval(values, asked.log.tasks, confidence=confidence, seed=asked.seed), confidence)
        for name, values in said.values.items()
    }
    return Trial(policy, pool, truth, found, said.refused)
