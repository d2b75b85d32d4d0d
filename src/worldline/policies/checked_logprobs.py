"""What a policy says of the probability of actions, checked: log-probs of at most 0, of probabilities of sum 1 at most.

Rounding may exceed both by a little. What exceeds them by more is no log-probability: every weight would be wrong.
"""

from collections.abc import Iterable, Sequence
from numbers import Real

import numpy as np
import numpy.typing as npt

from worldline.config import shortened
from worldline.types import Decision, InputError

EXPECTED = "`logprobs(turns, actions)` must return a list of arrays, for each turn one number per action given"
HIGHEST = 1e-4
"""The highest log-probability that rounding makes of 0."""
LARGEST_SUM = 1.05
"""The largest sum that rounding makes of probabilities which sum to 1, where a network computes at half precision."""


def check_decision(name: str, decision: Decision) -> None:
    """InputError where the log-prob of the action is none; it need not be given."""
    if isinstance(decision.logprob, Real) and not decision.logprob <= HIGHEST:
        raise InputError(
            f"policy '{name}' returned logprob={decision.logprob:.3g} for {shortened(decision.action)}: "
            "it must be at most 0, or None where it is unknown"
        )


def checked_rows(name: str, given: object, actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
    """A row for each turn, of the log-probs of its actions, none above 0; InputError where `given` is none such."""
    rows = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
    if rows is None or len(rows) != len(actions):
        got = f"{len(rows)} rows" if rows is not None else f"a {type(given).__name__}"
        raise InputError(f"policy '{name}' gave {got} for {len(actions)} turns: {EXPECTED}")
    return [_checked_row(name, row, named) for row, named in zip(rows, actions, strict=True)]


def _checked_row(name: str, given: object, actions: Sequence[str]) -> npt.NDArray[np.float64]:
    try:
        row = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"policy '{name}' gave {shortened(given)} as log-probabilities: {EXPECTED}") from None
    if row.shape != (len(actions),):
        got = f"{row.size} log-probabilities for the {len(actions)} actions of a turn"
        raise InputError(f"policy '{name}' gave {got}: {EXPECTED}")
    wrong = np.flatnonzero(~(row <= HIGHEST))
    if len(wrong):
        value, action = row[wrong[0]], shortened(actions[wrong[0]])
        raise InputError(f"policy '{name}' gave {value:.3g} as the log-probability of {action}: it must be at most 0")
    row = np.minimum(row, 0.0)
    total = float(np.exp(row).sum())
    if total > LARGEST_SUM and len(set(actions)) == len(actions):
        line = f"gave the {len(actions)} actions of a turn probabilities that sum to {total:.3g}: it must be at most 1"
        raise InputError(f"policy '{name}' {line}")
    return row
