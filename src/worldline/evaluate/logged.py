"""Candidates that are in the log: `--policy v2`, or `NAME=logged:LABEL`, means the episodes of `v2`.

Their value is the mean return of their own episodes, whatever estimator values the others: nothing can know more. They
stand in the comparison and in P(best) as every candidate does, on the same resamples of the tasks.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from worldline.config import listed
from worldline.evaluate.candidates import ELSEWHERE, Candidate
from worldline.evaluate.judgement import Judged
from worldline.ope.bounds import PROVEN
from worldline.ope.comparison import logged_values
from worldline.ope.estimation import TARGET_INDEPENDENT, Doubt, Estimator
from worldline.ope.log import Episodes, RaggedLog, RefusalError
from worldline.policies import KINDS
from worldline.types import InputError
from worldline.user_module import has_attribute

LOGGED = "logged:"
ON_POLICY = "logged"
"""The estimator where all candidates are in the log."""
NO_CODE = ("hf:", "vllm:", "api:", ELSEWHERE, LOGGED)
"""How specifications begin that are not `module:attr`."""
Loggers = Mapping[str, tuple[str, float]]
"""Name and epsilon of each policy that logged, by its label."""


def resolved(specs: Mapping[str, str], loggers: Loggers) -> dict[str, str]:
    """The specifications, with `logged:` before each that names a policy of the log and nothing else."""
    return {name: _resolved(spec, loggers) for name, spec in specs.items()}


def called(loggers: Loggers) -> frozenset[str]:
    """All that a policy of the log may be called by: labels, and names without their epsilon."""
    return frozenset({*loggers, *(name for name, _ in loggers.values())})


def _resolved(spec: str, loggers: Loggers) -> str:
    if spec in called(loggers) and ("=" in spec or _only_a_name(spec)):
        return LOGGED + spec
    if spec in KINDS or (":" in spec and not spec.startswith(LOGGED)):
        return spec
    wanted = spec.removeprefix(LOGGED)
    if _labels(wanted, loggers):
        return LOGGED + wanted
    line = f"no policy of the log is called '{wanted}': its policies are {listed(wanted, sorted(called(loggers)))}"
    raise InputError(f"--policy {spec}: {line}" + ("" if spec.startswith(LOGGED) else f"; or write {', '.join(KINDS)}"))


def _only_a_name(spec: str) -> bool:
    """Whether `openai:gpt-5` is no specification: neither of a model nor of code that is there."""
    kind, colon, rest = spec.partition(":")
    return bool(colon) and not spec.startswith(NO_CODE) and not has_attribute(kind, rest, f"--policy {spec}")


def _labels(wanted: str, loggers: Loggers) -> list[str]:
    """A label as the log has it; a name that is none is that policy at every epsilon it logged with."""
    return [wanted] if wanted in loggers else [label for label, (name, _) in loggers.items() if name == wanted]


def logged_candidates(name: str, spec: str, loggers: Loggers) -> list[Candidate]:
    """The candidates of one `logged:` specification; a policy may have logged at several epsilons."""
    return [
        Candidate(name if wanted != name else loggers[label][0], loggers[label][1], LOGGED + label, None)
        for wanted in [spec.removeprefix(LOGGED)]
        for label in _labels(wanted, loggers)
    ]


def logged_label(candidate: Candidate) -> str | None:
    """How the log calls a candidate that is in it; None for every other."""
    return candidate.spec.removeprefix(LOGGED) if candidate.spec.startswith(LOGGED) else None


def logged_labels(candidates: Sequence[Candidate]) -> dict[str, str]:
    """How the log calls the candidates that are in it, by how the evaluation calls them."""
    return {each.label: label for each in candidates if (label := logged_label(each)) is not None}


def check_logged(candidates: Sequence[Candidate], log: RaggedLog, interval: str) -> list[str]:
    """A note on each candidate of the log; InputError where it cannot be valued."""
    notes = []
    for label, own in logged_labels(candidates).items():
        count = int((log.policies == log.policy_names.index(own)).sum()) if own in log.policy_names else 0
        if not count:
            others = ", ".join(each.spec or each.name for each in candidates if logged_label(each) is None)
            raise InputError(
                f"--policy {label}: all of its episodes lack log-probs and are left out, because {others} would need "
                f"them and is not in the log ({LOGGED}NAME is a policy of the log); worldline compare needs none"
            )
        if interval in PROVEN:
            raise InputError(f"--interval {interval}: not for a policy of the log (--policy {label}): use bootstrap")
        notes.append(
            f"'{own}' is in the log: by every estimator its value is the mean of its own {count:,} episodes, as it "
            "acted in them"
        )
    if len(candidates) > 1 and all_logged(candidates):
        notes.append(
            "all of them are in the log: worldline compare --metric return pairs their episodes by task, quote its "
            "interval"
        )
    return notes


def all_logged(candidates: Sequence[Candidate]) -> bool:
    return all(logged_label(candidate) is not None for candidate in candidates)


def on_policy(label: str, names: Sequence[str], shared_tasks: bool) -> dict[str, Estimator]:
    """The estimators of a candidate of the log: all that depend on the policy are the mean of its own episodes."""

    def values(log: RaggedLog, gamma: float) -> Episodes:
        own = logged_values(log, gamma)
        if label not in own:
            raise RefusalError(f"no episode of '{label}' is here")
        return own[label]

    caveat = None if shared_tasks else f"'{label}' played other tasks than the other policies of the log"
    mean = Estimator(values, doubt=lambda: Doubt(caveat=caveat))
    return {name: mean for name in names if name not in TARGET_INDEPENDENT}


def with_own_count(judged: Judged, label: str, names: Sequence[str], log: RaggedLog, gamma: float) -> Judged:
    """The judgement, with the number of episodes that it rests on, and a flag where these all ended alike."""
    own = log.policies == log.policy_names.index(label)
    returns, estimates = log.returns(gamma)[own], dict(judged.estimates)
    alike = float(np.ptp(returns)) == 0
    for name in names:
        flags = [judged.estimates[name].flag, "all of its episodes have the same return: the interval is too narrow"]
        flag = "; ".join(flag for flag in flags[: 2 if alike else 1] if flag) or None
        estimates[name] = judged.estimates[name].model_copy(update={"n": int(own.sum()), "flag": flag})
    return Judged(judged.values, estimates, judged.diagnostics)
