"""The policies that made a log: is a given policy the one that logged, and a clone where none is given."""

import numpy as np
import numpy.typing as npt

from worldline.evaluate.candidates import ELSEWHERE, logged_rows
from worldline.ope.clone import cloned_logprobs
from worldline.ope.log import Choices, RaggedLog, RefusalError, TargetLog
from worldline.ope.text import TextLog
from worldline.types import InputError

CLOSE_ENOUGH = 0.05
"""Nats per step by which a logger's recomputed log-probs may differ from the logged ones."""
MOST = 1.0
"""Nats that one step counts at most: a model may have sampled tokens that the tokenizer would not make of their text,
or none that ends its response, and such a step cannot be scored again."""
CLONE = f"{ELSEWHERE}<clone>"
"""Specification of a logger, written `clone`, whose log-probs are estimated from what it logged: nobody can play it."""


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
