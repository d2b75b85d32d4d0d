"""What a log does not say whose returns are all the same: how many other episodes would end otherwise.

No resample of such a log shows any spread, so every interval of self-normalised weights would have no width. Of n
episodes that ended alike, the share of others that do not is at most 1 - .025^(1/n) (Clopper & Pearson 1934, at 95 %).
How far off these may be the log cannot say: as far as the other side of 0, as `comparison.paired` takes it.
"""

import numpy as np
from scipy import special

from worldline.ope.estimation import WEIGHTED, Estimator, EstimatorInput
from worldline.ope.intervals import ROUNDING
from worldline.ope.log import Episodes
from worldline.ope.weights import diagnose

TAIL = 0.025


def returns_alike(returns: Episodes) -> bool:
    """Whether several returns are all the same but for rounding."""
    return len(returns) > 1 and float(np.ptp(returns)) <= ROUNDING * float(np.abs(returns).max())


def unseen_error(evidence: EstimatorInput, estimator: Estimator) -> float:
    """The standard error of an estimate by a log whose returns are all the same; 0 of any other log.

    The episodes count by task, and no more of them than are effective where the estimator weights them.
    """
    log = evidence.log
    returns = log.returns(evidence.gamma)
    if not returns_alike(returns):
        return 0.0
    tasks = len(np.unique(log.tasks))
    units = float(tasks if tasks > 1 else log.episodes)
    if WEIGHTED & set(estimator.needs):
        units = min(units, max(diagnose(log.last(evidence.weights)).ess, 1.0))
    share = 1 - TAIL ** (1 / units)
    return float(2 * share * np.abs(returns).max() / special.ndtri(1 - TAIL))
