"""Which estimator to go by on this log, and which candidate it values most; or why none.

The smallest expected error wins: of sampling, and for models the bias that weights measured. Where every estimator is
flagged, it is no smaller than the error in trials: estimates of the log's own policies; so it is of one whose intervals
missed in every trial. A flagged estimator without a trial is never recommended, nothing says its error. Where the audit
convicts the log-probs, only estimators that use none are left; where the log lacks part of what a candidate does and
there are too few trials, only self-normalised weights. An estimator whose intervals missed in every one of a few trials
is out, and so is a world model without a trial, or with no smaller error in its trials than the behaviour mean. Where
`wm` values all candidates, no other world model is recommended but `wm-magic`, which is `wm` corrected by weights.
`bench coverage` compares this with every constant choice.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from worldline.evaluate.logged import ON_POLICY
from worldline.evaluate.result import Recommendation
from worldline.evaluate.result_parts import PolicyResult, rounding
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
CORRECTED = "wm-magic"
WEIGHTED_MODELS = frozenset({CORRECTED, "wm-dr", "am-dr"})
"""World models that importance weights correct."""
TRIALS_FOR_A_VERDICT = 3
"""The errors of fewer trials say too little to overrule sound intervals: their mean scatters by half of it."""
MISSES_FOR_A_VERDICT = 2
"""So many intervals out of as many miss once in 400 logs where they are sound: then the sampling error is not the
error. It is 3 for world models, which were refitted on half of the log for a trial."""


def recommend(
    estimators: Sequence[str],
    trials: Sequence[Trial],
    policies: Sequence[PolicyResult],
    audit: Audit | None = None,
    in_log: Collection[str] = (),
    weak_points: Mapping[str, Sequence[str]] | None = None,
    to_try: str = "",
) -> Recommendation | str:
    """The recommendation, or why there is none. `in_log` are the candidates that are valued by their own episodes;
    `weak_points` is what `fit` said against its world model, by estimator; `to_try` says what would give trials."""
    valued = [name for name in estimators if name not in TARGET_INDEPENDENT and _tells_apart(name, policies)]
    able = [name for name in valued if MIXTURE not in valued or name not in REFERENCES]
    if not able:
        return "no estimator that depends on the policy values all candidates and tells them apart"
    trusted = [name for name in able if not _always_missed(trials, name)]
    if not trusted:
        return f"{', '.join(able)} missed every one of the log's own policies"
    unflagged = [name for name in trusted if not flagged_for(name, policies)]
    measured = [name for name in unflagged if _is_measured(name, trials)]
    if unflagged and not measured:
        rest = ", and no other that may be recommended is without a flag" if len(unflagged) < len(able) else ""
        return f"the error of {', '.join(unflagged)} on this log is not certified{rest}"
    beaten = [name for name in measured if not _rests_on_the_log(name) and _floor_error(trials, name) is not None]
    sound = [name for name in measured if name not in beaten]
    pool = sound
    if not sound:
        flagged = [name for name in trusted if name not in unflagged]
        supported = [name for name in flagged if _is_supported(name, trials, policies, in_log)]
        pool = _least_bad(supported, trials, policies, audit)
        if not pool and not beaten:
            return _nothing_to_rely_on(trusted, [name for name in able if name not in trusted], policies, to_try)
        if reason := _below_the_floor(beaten, pool, trials, policies):
            return reason

    def weighed(name: str) -> Sequence[Trial]:
        hits = _hits(trials, name)
        return trials if not sound or (hits and not any(hits)) else ()

    errors = {name: error for name in pool if (error := _error(name, policies, weighed(name))) is not None}
    if not errors:
        return _unmeasured(pool, policies)
    best, *others = sorted(errors, key=lambda name: errors[name])
    following = f"; next is {others[0]}, {errors[others[0]]:.3f}" if others else ""
    depending = [name for name in estimators if name not in TARGET_INDEPENDENT]
    claims = {name: _error(name, own, weighed(name)) for name in depending if (own := _valued_by(name, policies))}
    smallest = _smallest(best, errors, claims, policies, len(depending))
    passed_over = _passed_over(errors[best], claims, policies, trials)
    caveat = "" if sound else _caveat(beaten)
    doubts = tuple((weak_points or {}).get(best, ()))
    reason = f"{smallest} {errors[best]:.3f}{following}{passed_over}{_certified(trials, best)}{caveat}{_warned(doubts)}"
    believed = [policy for policy in policies if not policy.estimates[best].flag] or policies
    top = max(believed, key=lambda policy: policy.estimates[best].value or 0.0)
    return Recommendation(estimator=best, policy=top.label, reason=reason, doubts=doubts)


def _smallest(
    best: str,
    errors: Mapping[str, float],
    claims: Mapping[str, float | None],
    policies: Sequence[PolicyResult],
    estimators: int,
) -> str:
    """Among which of the `estimators` the error of `best` is the smallest; `claims` has those passed over, too."""
    able = {name: claim for name, claim in claims.items() if len(_valued_by(name, policies)) == len(policies)}
    smaller = {name for name, claim in able.items() if claim is not None and claim < errors[best]}
    unflagged = [name for name in able if not flagged_for(name, policies)]
    if not smaller:
        if len(able) == estimators:
            return "smallest expected error on this log,"
        return _among(able, "with a value of every candidate")
    if best in unflagged and not smaller.intersection(unflagged):
        flagless = "without a flag" if len(able) == estimators else "with a value of every candidate and no flag"
        return _among(unflagged, flagless)
    return _among(errors, "that may be recommended here")


def _among(names: Collection[str], which: str) -> str:
    """In words, that the error is the smallest one of these estimators."""
    if len(names) == 1:
        return f"the only estimator {which}, expected error"
    return f"smallest expected error of the {len(names)} estimators {which},"


def _passed_over(
    error: float, claims: Mapping[str, float | None], policies: Sequence[PolicyResult], trials: Sequence[Trial]
) -> str:
    """The smallest error of an estimator that was passed over for nothing but that it refuses a candidate."""
    refusing = {
        name: claim
        for name, claim in claims.items()
        if claim is not None
        and claim < error
        and not flagged_for(name, policies)
        and len(_valued_by(name, policies)) < len(policies)
        and _holds_in_trials(name, trials)
    }
    if not refusing:
        return ""
    least = min(refusing, key=lambda name: refusing[name])
    refused = [policy.label for policy in policies if policy.estimates[least].value is None]
    return f"; {least} has {refusing[least]:.3f} but does not value {', '.join(refused)}"


def _holds_in_trials(name: str, trials: Sequence[Trial]) -> bool:
    """Whether no trial, and no lack of trials, speaks against it; of world models those that may be recommended."""
    if name in REFERENCES or not _is_measured(name, trials) or _always_missed(trials, name):
        return False
    return _rests_on_the_log(name) or _floor_error(trials, name) is None


def _valued_by(name: str, policies: Sequence[PolicyResult]) -> list[PolicyResult]:
    return [policy for policy in policies if policy.estimates[name].value is not None]


def _warned(weak_points: Sequence[str]) -> str:
    """What `fit` said against the world model: its first words, and how many more there are."""
    if not weak_points:
        return ""
    more = f" (and {len(weak_points) - 1} more, see the notes)" if len(weak_points) > 1 else ""
    return f"; but fit warned: {weak_points[0]}{more}"


def _caveat(beaten: Sequence[str]) -> str:
    """What speaks against a flagged estimator that is recommended all the same."""
    if not beaten:
        return "; it is flagged for some candidate, and so is every other that may be recommended"
    lost = f"{', '.join(beaten)}, without a flag, had no smaller error than the behaviour mean on policies left out"
    return f"; it is flagged for some candidate, and {lost}"


def _unmeasured(names: Sequence[str], policies: Sequence[PolicyResult]) -> str:
    alone = _one_episode(names, policies)
    mend = "give more than one episode" if alone else "too few episodes of the log are like the candidates"
    return f"the error of {', '.join(names)} is not measured: {mend}"


def _one_episode(names: Sequence[str], policies: Sequence[PolicyResult]) -> bool:
    return all(policy.estimates[name].n == 1 for name in names for policy in policies)


def _nothing_to_rely_on(
    names: Sequence[str], missed: Sequence[str], policies: Sequence[PolicyResult], to_try: str
) -> str:
    """Where every estimator is flagged and without a trial, but for those that `missed` in all: what would help."""
    if _one_episode(names, policies):
        return _unmeasured(names, policies)
    labels = ", ".join(policy.label for policy in policies)
    which = f"{', '.join(missed)} missed every one of the log's own policies, every other" if missed else "every"
    mends = [to_try] if to_try else []
    if all(map(_rests_on_the_log, [*names, *missed])):
        mends.append("--world-model adds an estimator that needs no overlap")
    mends.append(f"episodes of {labels} or of policies near add overlap")
    return (
        f"no estimate here can be relied on: {which} estimator that values all candidates is flagged, and none of "
        f"these was tried on the log's own policies: {'; '.join(mends)}"
    )


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
        without = [name for name in able if not _rests_on_logprobs(name)]
        return without or list(able)
    lacking = any(policy.diagnostics is not None and lacks_actions(policy.diagnostics) for policy in policies)
    if lacking and len(trials) < TRIALS_FOR_A_VERDICT:
        return [name for name in able if name in SELF_NORMALISED] or list(able)
    return list(able)


def _rests_on_logprobs(name: str) -> bool:
    return name in WEIGHTED_MODELS or (name in ESTIMATORS and bool(WEIGHTED & set(ESTIMATORS[name].needs)))


def _floor_error(trials: Sequence[Trial], name: str) -> float | None:
    """The behaviour mean's error in the trials, where there are enough of them and that of `name` is no smaller."""
    errors = comparable(trials, [FLOOR, name])
    if len(trials) < TRIALS_FOR_A_VERDICT or len(errors) < 2 or errors[name] < errors[FLOOR]:
        return None
    return errors[FLOOR]


def _below_the_floor(
    beaten: Sequence[str], flagged: Sequence[str], trials: Sequence[Trial], policies: Sequence[PolicyResult]
) -> str | None:
    """Where none of those that are left had a smaller error in its trials than the logged mean.

    Those without a flag are `beaten` already: the `flagged` decide, where there are any.
    """
    errors = comparable(trials, [FLOOR, *beaten, *flagged])
    tried = [name for name in flagged or beaten if name in errors]
    if FLOOR not in errors or len(trials) < TRIALS_FOR_A_VERDICT or not tried:
        return None
    if min(errors[name] for name in tried) < errors[FLOOR]:
        return None
    others = [
        f"that of {best}{doubt} {errors[best]:.3f}"
        for names, doubt in ((beaten, ""), (flagged, ", which is flagged,"))
        if (best := min((name for name in names if name in errors), key=lambda name: errors[name], default=""))
    ]
    return (
        "no estimator that may be recommended here beats the behaviour mean: its error on the log's own policies is "
        f"{errors[FLOOR]:.3f}, {', '.join(others)}: collect {_episodes(policies, errors[FLOOR])} of "
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
    return _rests_on_the_log(name) or record(trials, name) is not None


def _rests_on_the_log(name: str) -> bool:
    """Whether it is no world model: of what a world model says, trials are all that speaks for it."""
    return name in ESTIMATORS or name == ON_POLICY


def _is_supported(
    name: str, trials: Sequence[Trial], policies: Sequence[PolicyResult], in_log: Collection[str]
) -> bool:
    """Whether anything but a flagged estimate itself says its error: a trial, or that it is a mean of own episodes."""
    return record(trials, name) is not None or set(flagged_for(name, policies)) <= set(in_log)


def _always_missed(trials: Sequence[Trial], name: str) -> bool:
    enough = MISSES_FOR_A_VERDICT if _rests_on_the_log(name) else TRIALS_FOR_A_VERDICT
    return len(_hits(trials, name)) >= enough and not any(_hits(trials, name))


def _hits(trials: Sequence[Trial], name: str) -> list[bool]:
    """Of every trial with an interval, whether it holds the value."""
    return [hit for trial in trials if name in trial.estimates and (hit := trial.covers(name)) is not None]


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
    done = [trial for trial in trials if name in trial.estimates]
    errors = [trial.error(name) for trial in done]
    if not errors:
        return ""
    spread = f" ± {np.std(errors, ddof=1) / np.sqrt(len(errors)):.3f}" if len(errors) > 1 else ""
    floor = _floor_error(trials, name)
    beaten = "" if floor is None else f", no better than the behaviour mean, {floor:.3f}"
    hits = _hits(trials, name)
    missed = "" if all(hits) else f", {sum(hits)} of {len(hits)} intervals hold the value"
    return f"; on {len(errors)} of the log's policies{_own_means(done)} {np.mean(errors):.3f}{spread}{beaten}{missed}"


def _own_means(trials: Sequence[Trial]) -> str:
    """Of how many episodes the means are that stand for what the log's policies are worth."""
    episodes = [trial.truth_episodes for trial in trials if trial.truth_episodes]
    if not episodes:
        return ""
    least, most = min(episodes), max(episodes)
    return f" (by own means of {least:,}{'' if least == most else f' to {most:,}'} episodes)"


def _tells_apart(name: str, policies: Sequence[PolicyResult]) -> bool:
    """Whether every candidate has a value, and not all the same one but for rounding."""
    estimates = [policy.estimates[name] for policy in policies]
    values = [each.value for each in estimates if each.value is not None]
    if len(values) < len(policies):
        return False
    return len(policies) == 1 or max(values) - min(values) > rounding(estimates)
