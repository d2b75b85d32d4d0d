"""How far off a world model's value of a new policy may be, which no resample of the log shows.

Its errors on loggers that are left out of its log say little about that. A model refitted without them has lost part of
its log; and where loggers act alike, each is well known from the others, and a new policy is not. How much of what the
world answers the model can give at all says more: what it cannot give it replaces by something else, whose outcome may
be any that the log has. The constants are those of `wm`, from 41 logs of the twelve small worlds and of ten others, in
which ten policies each had known values (`docs/worlds.md`).
"""

from collections.abc import Sequence

import numpy as np

from worldline.ope.log import Episodes

LEAST, IMPOSSIBLE = 0.2, 0.8
"""In standard deviations of the logged returns: the error where the model can give every answer, and what is added to
it where it can give none."""
REFITTED = 0.5
"""Of the error on a logger that is left out. Where `wm` can give nearly every answer, its error on new policies is
about half of that (medians .21 and .38)."""


def world_model_error(
    returns: Episodes, possible: float, errors: Sequence[float], left_out: Sequence[float] = ()
) -> float:
    """The standard error of the value of a policy that the log does not have.

    `returns` are those of the log; `possible` is the share of held-out answers that the model can give, times that of
    answers at the end of an episode. `errors` are the model's on the log's own policies, `left_out` those of models
    that were fitted without them.
    """
    expected = float(returns.std()) * (LEAST + IMPOSSIBLE * (1 - possible))
    measured = [*errors, *(REFITTED * error for error in left_out)]
    return float(np.hypot(expected, np.sqrt(np.mean(np.square(measured))) if measured else 0.0))
