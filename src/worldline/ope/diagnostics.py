"""How far a log speaks about a target, told before any estimate; and the reason not to trust one, with its number."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from worldline.ope.evidence import ESTIMATORS, FITTED, WEIGHTED, Estimator, Evidence
from worldline.ope.log import Choices, Episodes, RefusalError
from worldline.ope.weights import diagnose, exp

LEAST_ESS = 10.0
LARGEST_PARETO_K = 0.7
LEAST_SUPPORT = 0.5
MEAN_WEIGHT = (0.5, 2.0)


@dataclass(frozen=True)
class Diagnostics:
    """None where the log or the target does not say."""

    episodes: int
    tasks: int
    ess: float | None = None
    """Effective number of episodes."""
    largest_share: float | None = None
    """Share of the largest weight."""
    mean_weight: float | None = None
    """1 in expectation if the log covers all the target does; below 1, what share of it is covered."""
    pareto_k: float | None = None
    overlap: float | None = None
    """Mean over steps of min(1, rho_t): 1 - total variation between the target and the loggers, step by step."""
    never: float | None = None
    """Share of logged steps whose action the target would never take."""
    support: float | None = None
    """Share of the target's choices, at logged steps, that the log holds at the same place (goal and observation)."""

    def as_dict(self) -> dict[str, float | None]:
        return asdict(self)


def diagnostics(evidence: Evidence, places: npt.NDArray[np.int64] | None = None) -> Diagnostics:
    """The figures of one target; `places` groups steps that look the same to the agent."""
    log, target = evidence.log, evidence.target
    found: dict[str, float | None] = {}
    if target is not None:
        found["never"] = float(np.isneginf(target.logprobs).mean())
        if target.choices is not None and places is not None:
            found["support"] = support(target.choices, places, evidence.features.logged)
        try:
            weights = diagnose(evidence.weights[log.ends])
        except RefusalError:
            return Diagnostics(log.episodes, len(np.unique(log.tasks)), **found)
        found |= {"ess": weights.ess, "largest_share": weights.largest_share, "mean_weight": weights.mean}
        found |= {"pareto_k": weights.pareto_k, "overlap": float(np.minimum(exp(evidence.ratios), 1.0).mean())}
    return Diagnostics(log.episodes, len(np.unique(log.tasks)), **found)


def support(choices: Choices, places: npt.NDArray[np.int64], logged: npt.NDArray[np.int64]) -> float:
    """Mean over steps of the target's probability of actions that were logged at the same place."""
    width = int(max(choices.actions.max(), logged.max())) + 1
    seen = np.unique(places * width + logged)
    inside = np.isin(places[choices.step] * width + choices.actions, seen)
    return float(choices.mean(inside.astype(np.float64)).mean())


def distrust(
    name: str,
    values: Episodes,
    found: Diagnostics,
    returns: Episodes,
    estimators: Mapping[str, Estimator] = ESTIMATORS,
) -> str | None:
    """Why the estimate must not be trusted, in a few words; None where nothing speaks against it."""
    reasons: list[str] = []
    needs = set(estimators[name].needs)
    if needs & WEIGHTED:
        reasons += _bad_weights(found)
    if needs & FITTED and not needs & WEIGHTED and found.support is not None and found.support < LEAST_SUPPORT:
        reasons.append(f"only {found.support:.0%} of the target's choices are in the log")
    low, high = float(returns.min()), float(returns.max())
    mean = float(values.mean())
    if needs & WEIGHTED and low < high and float(np.ptp(values)) <= 1e-12 * max(1.0, abs(mean)):
        reasons.append("every episode that counts ended alike: the interval is too narrow")
    slack = 1e-9 + 0.01 * (high - low)
    if not low - slack <= mean <= high + slack:
        reasons.append(f"outside the returns ever logged, {low:.3g} to {high:.3g}")
    if found.tasks == 1 and found.episodes > 1:
        reasons.append("one task only: the interval is about its episodes")
    return "; ".join(reasons) or None


def _bad_weights(found: Diagnostics) -> list[str]:
    reasons: list[str] = []
    if found.ess is not None and found.ess < LEAST_ESS:
        reasons.append(f"{found.ess:.1f} effective episodes of {found.episodes:,}")
    if found.pareto_k is not None and found.pareto_k > LARGEST_PARETO_K:
        reasons.append(f"weight tail k = {found.pareto_k:.2f} > {LARGEST_PARETO_K}")
    if found.mean_weight is not None and not MEAN_WEIGHT[0] <= found.mean_weight <= MEAN_WEIGHT[1]:
        reasons.append(f"mean weight {found.mean_weight:.2g}, expected 1")
    return reasons
