"""Drawing one of several things from a turn's seed: the only source of randomness of every policy.

There is no generator object: each draw is a hash of the seed and of what it is for, so it does not depend on
which draws were made before, by whom, or in which batch.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from worldline.types import InputError, Turn, derive_seed


def uniform(seed: int, *purpose: int | str) -> float:
    """A number in [0, 1) that is a function of `seed` and `purpose`."""
    return (derive_seed(seed, *purpose) >> 10) / 2**53


def pick(probabilities: Sequence[float] | npt.NDArray[np.float64], draw: float) -> int:
    """The index that inverse-CDF sampling gives for a uniform `draw`; never one of probability 0."""
    cumulative = np.cumsum(np.asarray(probabilities, dtype=np.float64))
    index = int(np.searchsorted(cumulative, draw * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(probabilities)[-1]))


def admissible(turn: Turn, who: str) -> tuple[str, ...]:
    """The distinct admissible actions of `turn`; InputError where there are none to choose from."""
    actions = tuple(dict.fromkeys(turn.admissible or ()))
    if not actions:
        raise InputError(f"{who} chooses among admissible actions, and the environment lists none at step {turn.step}")
    return actions
