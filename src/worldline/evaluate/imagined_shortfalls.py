"""What speaks against imagined episodes: steps the log does not support, episodes the policy could not go on with."""

import numpy as np

from worldline.adwm.value import Array, Imagined

MOST_UNSUPPORTED = 0.2
"""Share of imagined answers the log does not support above which an estimate is flagged."""


def shortfalls(imagined: Imagined) -> list[str]:
    """What speaks against a value for that, in words."""
    out = []
    unsupported = imagined.support.unsupported / max(1, imagined.support.steps)
    if unsupported > MOST_UNSUPPORTED:
        out.append(f"{unsupported:.0%} of the imagined steps are not supported by the log")
    if imagined.lost:
        out.append(
            f"{imagined.lost:.1%} of the imagined episodes are lost: the policy failed there ({imagined.failure})"
        )
    return out


def lost_error(imagined: Imagined, returns: Array) -> float:
    """How far a value may be off for lost episodes: each may be worth whatever an episode of the log is."""
    return imagined.lost * float(np.ptp(returns)) if imagined.lost else 0.0
