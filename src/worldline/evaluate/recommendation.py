"""Which estimator to go by on this log, and which candidate it values most; or why none.

The smallest expected error wins: of sampling, and for models the bias that weights measured. Where every estimator is
flagged, it is no smaller than the error in trials: estimates of the log's own policies. Where the audit convicts the
log-probs, only estimators that use none are left; where the log lacks part of what a candidate does and there are too
few trials, only self-normalised weights. An estimator whose intervals missed in every trial is out, and so is a world
model without a trial. Of the world models only `wm` is recommended where it values all candidates.
`bench coverage` compares this with every constant choice.
"""

from collections.abc import Sequence

import numpy as np

from worldline.evaluate.logged import ON_POLICY
from worldline.evaluate.result import Recommendation
from worldline.evaluate.result_parts import PolicyResult
from worldline.ope.audit import Audit
from worldline.ope.certificate import Trial, comparable, record
from worldline.ope.diagnostics import LEAST_ESS, lacks_actions
from worldline.ope.estimation import ESTIMATORS, TARGET_INDEPENDENT, WEIGHTED

SELF_NORMALISED = frozenset({"wis", "pdwis", "wis-clip", "pdwis-clip"})
FLOOR = "naive"
MIXTURE = "wm"
REFERENCES = frozenset({"wm-bag", "adwm", "adwm-noise", "adwm-paper", "wm-ar", "wm-joint", "wm-knn", "wm-text"})
"""World models that the mixture is compared with. The log's few loggers, one error each, are too few to choose between
world models by; the mixture chose its parts by every held-out step of the log."""
TRIALS_FOR_A_VERDICT = 3
"""The errors of fewer trials say too little to overrule sound intervals: their mean scatters by half of it."""


def recommend(
    estimators: Sequence[str], trials: Sequence[Trial], policies: Sequence[PolicyResult], audit: Audit | None = None
) -> Recommendation | str:
    """The recommendation, or why there is none."""
    able = [name for name in estimators if name not in TARGET_INDEPENDENT and _tells_apart(name, policies)]
    able = [name for name in able if MIXTURE not in able or name not in REFERENCES]
    if not able:
        return "no estimator that depends on the policy values all candidates and tells them apart"
    trusted = [name for name in able if not _always_missed(trials, name)]
    if not trusted:
        return f"{', '.join(able)} missed every policy of known value on this log"
    sound = [name for name in trusted if not flagged_for(name, policies)]
    measured = [name for name in sound if _is_measured(name, trials)]
    if sound and not measured:
        flagged = ", and the other estimators are flagged" if len(sound) < len(able) else ""
        return f"the error of {', '.join(sound)} on this log is not certified{flagged}"
    sound = measured
    pool = sound or _least_bad(trusted, trials, policies, audit)
    errors = {name: error for name in pool if (error := _error(name, policies, () if sound else trials)) is not None}
    if not errors:
        alone = all(policy.estimates[name].n == 1 for name in pool for policy in policies)
        mend = "give more than one episode" if alone else "too few episodes of the log are like the candidates"
        return f"the error of {', '.join(pool)} is not measured: {mend}"
    if reason := _below_the_floor(sound, pool, trials, policies):
        return reason
    best, *rest = sorted(errors, key=lambda name: errors[name])
    following = f"; next is {rest[0]}, {errors[rest[0]]:.3f}" if rest else ""
    caveat = "" if sound else "; every estimator is flagged for some candidate, this one too"
    reason = f"smallest expected error on this log, {errors[best]:.3f}{following}{_certified(trials, best)}{caveat}"
    top = max(policies, key=lambda policy: policy.estimates[best].value or 0.0)
    return Recommendation(estimator=best, policy=top.label, reason=reason)


def fallback(estimators: Sequence[str], policies: Sequence[PolicyResult]) -> str | None:
    """The estimator to compare candidates by where none is recommended: of those that value all of them, one that is
    flagged for the fewest, and the least uncertain of these."""
    able = [name for name in estimators if all(policy.estimates[name].value is not None for policy in policies)]
    able = [name for name in able if name not in TARGET_INDEPENDENT] or able

    def doubt(name: str) -> tuple[int, float]:
        error = expected_error(name, policies)
        return len(flagged_for(name, policies)), np.inf if error is None else error

    return min(able, key=doubt, default=None)


def flagged_for(name: str, policies: Sequence[PolicyResult]) -> list[str]:
    """The candidates whose estimate is not to be trusted."""
    return [policy.label for policy in policies if policy.estimates[name].flag]


def expected_error(name: str, policies: Sequence[PolicyResult]) -> float | None:
    """Root mean square over the candidates of the estimate's expected error; None where one has none.

    A flagged estimate without any spread has none: one weight that outweighs all others has no spread.
    """
    errors = [None if each.flag and not each.error else each.error for each in (p.estimates[name] for p in policies)]
    measured = [error for error in errors if error is not None]
    return float(np.sqrt(np.mean(np.square(measured)))) if len(measured) == len(errors) else None


def _least_bad(
    able: Sequence[str], trials: Sequence[Trial], policies: Sequence[PolicyResult], audit: Audit | None
) -> list[str]:
    """Where all are flagged: those whose fault is the smaller one; all, where there are trials enough."""
    if audit is not None and audit.reasons:
        without = [name for name in able if name not in ESTIMATORS or not _rests_on_logprobs(name)]
        return without or list(able)
    lacking = any(policy.diagnostics is not None and lacks_actions(policy.diagnostics) for policy in policies)
    if lacking and len(trials) < TRIALS_FOR_A_VERDICT:
        return [name for name in able if name in SELF_NORMALISED] or list(able)
    return list(able)


def _rests_on_logprobs(name: str) -> bool:
    needs = set(ESTIMATORS[name].needs)
    return bool(needs & WEIGHTED)


def _below_the_floor(
    sound: Sequence[str], pool: Sequence[str], trials: Sequence[Trial], policies: Sequence[PolicyResult]
) -> str | None:
    """Where every estimator is flagged and none had a smaller error in its trials than the logged mean."""
    errors = comparable(trials, [FLOOR, *pool])
    if sound or FLOOR not in errors or len(trials) < TRIALS_FOR_A_VERDICT or len(errors) < 2:
        return None
    best = min((name for name in errors if name != FLOOR), key=lambda name: errors[name])
    if errors[best] < errors[FLOOR]:
        return None
    return (
        f"nothing here beats the behaviour mean: its error on the log's own policies is {errors[FLOOR]:.3f}, that of "
        f"{best} {errors[best]:.3f}, and every estimator is flagged: collect {_episodes(policies, errors[FLOOR])} of "
        f"{'each of ' if len(policies) > 1 else ''}{', '.join(policy.label for policy in policies)}"
    )


def _episodes(policies: Sequence[PolicyResult], error: float) -> str:
    """In words, how many episodes to collect; without a number where the behaviour mean has no interval."""
    logged = policies[0].estimates[FLOOR]
    if logged.low is None or logged.high is None or not error > 0:
        return "episodes"
    return f"about {episodes_needed((logged.high - logged.low) / 2, logged.n, error):,} episodes"


def episodes_needed(half_width: float, episodes: int, error: float) -> int:
    """How many episodes of its own make a candidate's mean surer than the behaviour mean is right.

    The interval of a mean of N episodes is w sqrt(n / N) wide on either side, if they scatter like the n logged ones,
    whose mean has w. It is as wide as the behaviour mean's `error` at N = n (w / error)^2; rounded up to two digits,
    and never fewer than it takes to trust a mean at all.
    """
    needed = max(LEAST_ESS, episodes * (half_width / error) ** 2)
    digits = 10 ** max(0, int(np.floor(np.log10(needed))) - 1)
    return int(np.ceil(round(needed / digits, 9)) * digits)


def _is_measured(name: str, trials: Sequence[Trial]) -> bool:
    """Whether an estimate's error is measured on what it was not fitted to: of those of `ope` by weights, of a world
    model by policies that were left out of its log. The mean of a policy's own episodes has no other error."""
    return name in ESTIMATORS or name == ON_POLICY or record(trials, name) is not None


def _always_missed(trials: Sequence[Trial], name: str) -> bool:
    done = record(trials, name)
    return done is not None and done.trials >= TRIALS_FOR_A_VERDICT and done.coverage == 0


def _error(name: str, policies: Sequence[PolicyResult], trials: Sequence[Trial]) -> float | None:
    """The larger one of the expected error and the error in trials, as far as there are such; None without both."""
    measured = [error for error in (expected_error(name, policies), _trial_error(trials, name)) if error is not None]
    return max(measured, default=None)


def _trial_error(trials: Sequence[Trial], name: str) -> float | None:
    """The mean error of the trials. A flagged estimate rests on a handful of episodes, whose spread says little."""
    done = record(trials, name)
    return None if done is None else done.mae


def _certified(trials: Sequence[Trial], name: str) -> str:
    """The mean error of the trials, in words, with its standard error."""
    errors = [abs(trial.estimates[name].value - trial.truth) for trial in trials if name in trial.estimates]
    if not errors:
        return ""
    spread = f" ± {np.std(errors, ddof=1) / np.sqrt(len(errors)):.3f}" if len(errors) > 1 else ""
    return f"; on {len(errors)} policies of known value {np.mean(errors):.3f}{spread}"


def _tells_apart(name: str, policies: Sequence[PolicyResult]) -> bool:
    """Whether every candidate has a value, and not all the same one."""
    values = {policy.estimates[name].value for policy in policies}
    return None not in values and len(values) > min(1, len(policies) - 1)
