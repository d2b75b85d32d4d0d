"""The policies that made a log: is a given policy the one that logged, and a clone where none is given."""

from collections.abc import Callable, Container, Sequence

import numpy as np
import numpy.typing as npt

from worldline.evaluate.candidates import ELSEWHERE, logged_rows
from worldline.ope.clone import cloned_logprobs
from worldline.ope.log import Choices, RaggedLog, RefusalError, TargetLog
from worldline.ope.text import TextLog
from worldline.types import InputError

CLOSE_ENOUGH = 0.05
"""Nats per step by which a logger's recomputed log-probs may differ from the logged ones."""
CLOSE_BY_EPISODE = 0.5
"""Nats per mean episode by which they may: a weight that is off by a factor of up to 1.65. Balanced weights take the
recomputed log-probs for the logged ones, and what is small in a step adds up."""
SHOWN_DISTANCE = 1e-3
"""Nats per step from which a distance is told: arithmetic alone makes less."""
MOST = 1.0
"""Nats that one step counts at most: a model may have sampled tokens that the tokenizer would not make of their text,
or none that ends its response, and such a step cannot be scored again."""
CLONE = f"{ELSEWHERE}<clone>"
"""Specification of a logger, written `clone`, whose log-probs are estimated from what it logged: nobody can play it."""

NOT_GIVEN = "is not given: --logger NAME=SPEC gives it"
NO_LOGPROBS = (
    "was given, and gives no log-probs: functions and API agents give none, an object with `logprobs` does "
    "(docs/policies.md)"
)
NOT_THE_LOGGER = "was given, and is not the one that logged"
TOO_FAR = "was given, and its log-probs differ from the logged ones by too much in an episode to weight by"
UNLISTED = "was given, and logged with chance: steps of the log do not say what was admissible, so it cannot be scored"
"""Why the log-probs of a logger are not used, as the end of a sentence about the policy."""


def missing_logprobs(log: RaggedLog, filled: Container[str], why: Callable[[str], str]) -> str | None:
    """The note of a log without log-probs: whose are missing, and what would give them; `why` a logger's are not."""
    missing = log.each_episode(lambda part, _: part.total(np.isnan(part.behaviour).astype(np.float64)))
    if not missing.any():
        return None
    counts = {log.policy_names[code]: int(n) for code, n in enumerate(np.bincount(log.policies, missing)) if n}
    by_logger = ", ".join(f"{n:,} of {label}" for label, n in counts.items())
    note = f"column 'logprob' is empty in {int(missing.sum()):,} of {log.steps:,} steps ({by_logger})"
    lacking = [label for label in counts if label not in filled]
    if not lacking:
        return f"{note}: --logger fills it"
    reasons = [f"the policy {reason} ({', '.join(labels)})" for reason, labels in grouped(lacking, why).items()]
    return f"{note}: importance weights need it; {'; '.join(reasons)}; --logger NAME=clone estimates it"


def grouped(labels: Sequence[str], why: Callable[[str], str]) -> dict[str, list[str]]:
    """The labels by reason."""
    groups: dict[str, list[str]] = {}
    for label in labels:
        groups.setdefault(why(label), []).append(label)
    return groups


def what_gives_trials(loggers: Sequence[str], given: Container[str], certificate: bool) -> str:
    """What would try estimators on the log's own policies; empty where all that it takes is given."""
    if len(loggers) < 2:
        return (
            "the log has one policy, which gives no trial: episodes of a second one, with --logger NAME=SPEC for each, "
            "give some"
        )
    if not certificate:
        return "--certificate true tries them"
    missing = [label for label in loggers if label not in given]
    return f"--logger NAME=SPEC for {', '.join(missing)} tries them" if missing else ""


def cloned_logger(text: TextLog, log: RaggedLog, label: str, seed: int) -> tuple[TargetLog | None, str]:
    """A policy cloned from the logger's own episodes, None where the log has its log-probs; and what to tell."""
    own = np.repeat(log.policies == log.policy_names.index(label), log.lengths)
    if not np.isnan(log.behaviour[own]).any():
        return None, f"--logger {label}=clone: not used, the log has the log-probs of '{label}'"
    try:
        options = cloned_logprobs(text, own, np.repeat(log.tasks, log.lengths), seed)
    except RefusalError as reason:
        raise InputError(f"--logger {label}=clone: {reason}") from None
    logged = options[logged_rows(text)]
    note = (
        f"the log-probs of '{label}' are estimated by a clone of it: {float(-logged[own].mean()):.2f} nats per "
        "step on episodes that it has not seen"
    )
    return TargetLog(logged, Choices(options, text.option_codes, text.option_offsets)), note


def distance_to_logger(log: RaggedLog, target: TargetLog, code: int) -> float:
    """Mean distance, in nats per step, of a policy's log-probs to those that a logger wrote; 0 where it wrote none.

    A few steps that cannot be scored again do not make it another policy: each counts MOST.
    """

    def distances(part: RaggedLog, steps: slice) -> npt.NDArray[np.float64]:
        own = np.repeat(part.policies == code, part.lengths) & ~np.isnan(part.behaviour)
        apart = np.abs(target.logprobs[steps] - part.behaviour)[own]
        return np.array([np.minimum(apart, MOST).sum(), own.sum()])

    total, count = log.summed(distances)
    return float(total / count) if count else 0.0
