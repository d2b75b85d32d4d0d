"""How well a log covers a target, measured before any estimate; and the reasons not to trust an estimate."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from worldline.number_text import below
from worldline.ope.audit import ratio_sums
from worldline.ope.estimation import ESTIMATORS, FITTED, WEIGHTED, Estimator, EstimatorInput
from worldline.ope.intervals import FEW_UNITS, student_stretch
from worldline.ope.log import Choices, Episodes, RefusalError
from worldline.ope.weights import diagnose, exp

LEAST_ESS = 25.0
LARGEST_PARETO_K = 0.8
"""The mean is unreliable above 0.7 (Vehtari et al. 2024), and k of some hundred weights scatters by 0.1 or more: at 0.7
one sound log in twenty was flagged, at 0.8 one in fifty, and no more errors went without a flag (`bench coverage`)."""
LEAST_SUPPORT = 0.5
MEAN_WEIGHT = (0.5, 2.0)
FAR_FROM_ONE = 3.0
"""Standard errors between a mean weight and 1 at which the log lacks part of what the target does, or lies about it."""
BEYOND = 0.00135
"""Of a normal, the share beyond so many: with few or skewed weights the error is larger by Student's quantile there."""
LEAST_DISTANCE = 0.02
"""A mean weight closer to 1 than that does no harm, however sure the difference is."""


@dataclass(frozen=True)
class Diagnostics:
    """Coverage of one target by one log; None where log-probabilities are missing."""

    episodes: int
    tasks: int
    ess: float | None = None
    """Effective sample size, in episodes."""
    largest_share: float | None = None
    """Share of the largest weight in the sum of weights."""
    mean_weight: float | None = None
    """1 in expectation if the log covers everything the target does; below 1, the share that it covers."""
    mean_weight_error: float | None = None
    """Its standard error, stretched where weights are few or skewed: 3 of it are as rare as 3 of a normal."""
    step_weight: float | None = None
    """Mean over steps of rho_t: 1 in expectation, and far less noisy than the mean weight of whole episodes."""
    step_weight_error: float | None = None
    pareto_k: float | None = None
    """Importance-weight tail index k."""
    overlap: float | None = None
    """Mean over steps of min(1, rho_t): 1 - total variation between the target and the loggers, step by step."""
    never: float | None = None
    """Share of logged steps whose action the target would never take."""
    support: float | None = None
    """Share of the target's choices at logged steps that the log contains in the same state (goal and observation)."""

    def as_dict(self) -> dict[str, float | None]:
        return asdict(self)


def diagnostics(evidence: EstimatorInput, places: npt.NDArray[np.int64] | None = None) -> Diagnostics:
    """The diagnostics of one target; `places` groups steps that look the same to the agent."""
    log, target = evidence.log, evidence.target
    figures: dict[str, float | None] = {}
    if target is not None:
        never = log.summed(lambda _, steps: np.isneginf(target.logprobs[steps]).sum())
        figures["never"] = float(never) / log.steps
        if target.choices is not None and places is not None:
            figures["support"] = support(target.choices, places, evidence.features.logged)
        try:
            final = log.last(evidence.weights)
        except RefusalError:
            return Diagnostics(log.episodes, len(np.unique(log.tasks)), **figures)
        weights = diagnose(final)
        figures |= {"ess": weights.ess, "largest_share": weights.largest_share, "mean_weight": weights.mean}
        log_ratios = evidence.ratios
        ratios = log.each_step(lambda _, steps: exp(log_ratios[steps]))
        overlap = float(log.summed(lambda _, steps: np.minimum(ratios[steps], 1.0).sum())) / log.steps
        figures |= {"pareto_k": weights.pareto_k, "overlap": overlap}
        if log.episodes > 1:
            figures["mean_weight_error"] = _stretched_error(exp(final))
            sums, every = ratio_sums(ratios, log), np.ones(log.episodes, dtype=np.bool_)
            figures["step_weight"], _ = sums.mean(log, every)
            figures["step_weight_error"] = _stretched_error(sums.units(log, every)) * sums.scale
    return Diagnostics(log.episodes, len(np.unique(log.tasks)), **figures)


def _stretched_error(weights: Episodes) -> float:
    """Standard error of the mean of weights, times Student's quantile over the normal one.

    Episodes are the units, not tasks: what a weight lacks to 1 is 0 in expectation on every task. Weights may be as
    large as 1e260.
    """
    scale = float(np.abs(weights).max()) or 1.0
    units = (weights / scale)[:, None]
    error = float(units.std(ddof=1) / np.sqrt(len(units))) * scale
    return error * float(student_stretch(units, BEYOND)[0])


def support(choices: Choices, places: npt.NDArray[np.int64], logged: npt.NDArray[np.int64]) -> float:
    """Mean over steps of the target's probability of actions that were logged in the same state."""
    width = int(max(choices.actions.max(), logged.max())) + 1
    logged_pairs = np.unique(places * width + logged)
    inside = np.isin(places[choices.step] * width + choices.actions, logged_pairs)
    return float(choices.mean(inside.astype(np.float64)).mean())


def distrust(
    name: str,
    values: Episodes,
    measured: Diagnostics,
    returns: Episodes,
    estimators: Mapping[str, Estimator] = ESTIMATORS,
    audit: Sequence[str] = (),
) -> str | None:
    """Why the estimate must not be trusted, in a few words; None without a reason.

    `audit` is what speaks against the log-probabilities. Fitted models answer to the weights too: where these say
    little, nothing has measured the model's error on this target.
    """
    reasons: list[str] = []
    needs = set(estimators[name].needs)
    if needs & WEIGHTED or estimators[name].modelled:
        reasons += [*audit, *([] if estimators[name].guarded else bad_weights(measured))]
    if needs & FITTED and not needs & WEIGHTED and measured.support is not None and measured.support < LEAST_SUPPORT:
        share = below(100 * measured.support, 100 * LEAST_SUPPORT)
        reasons.append(f"only {share}% of the target's choices are in the log")
    low, high = float(returns.min()), float(returns.max())
    mean = float(values.mean())
    if not np.any(returns):
        reasons.append("every logged return is 0: the log does not say how far off another return may be")
    alike = needs & WEIGHTED and not estimators[name].guarded
    if alike and low < high and float(np.ptp(values)) <= 1e-12 * max(abs(low), abs(high), abs(mean)):
        reasons.append("all episodes with weight have the same return: the interval is too narrow")
    slack = 1e-9 * max(abs(low), abs(high)) + 0.01 * (high - low)
    if not low - slack <= mean <= high + slack:
        reasons.append(f"outside the logged returns, {low:.3g} to {high:.3g}")
    if measured.tasks == 1 and measured.episodes > 1:
        reasons.append("one task only: the interval covers its episodes, not other tasks")
    elif measured.tasks < FEW_UNITS and measured.episodes > 1:
        reasons.append(f"{measured.tasks} tasks only: so few say little about other tasks")
    return "; ".join(reasons) or None


def bad_weights(measured: Diagnostics) -> list[str]:
    """What speaks against importance weights."""
    reasons: list[str] = []
    if measured.ess is not None and measured.ess < LEAST_ESS:
        reasons.append(f"{below(measured.ess, LEAST_ESS, 1)} effective episodes of {measured.episodes:,}")
    if measured.pareto_k is not None and measured.pareto_k > LARGEST_PARETO_K:
        reasons.append(f"importance-weight tail index k = {measured.pareto_k:.3g} > {LARGEST_PARETO_K}")
    pairs = (
        ("mean weight", measured.mean_weight, measured.mean_weight_error),
        ("mean step weight", measured.step_weight, measured.step_weight_error),
    )
    for what, mean, error in pairs:
        if mean is not None and _far_from_one(mean, error):
            shown = f"{mean:.2g}" if error is None else f"{mean:.2g} ± {error:.2g}"
            missing = ": the log lacks part of what the policy does, or its log-probs are wrong" if mean < 1 else ""
            reasons.append(f"{what} {shown}, expected 1{missing}")
            break
    return reasons


def lacks_actions(measured: Diagnostics) -> bool:
    """Whether the target does what the log does not hold: its step weights fall short of 1, for sure."""
    mean, error = measured.step_weight, measured.step_weight_error
    return mean is not None and mean < 1 and _far_from_one(mean, error)


def _far_from_one(mean: float, error: float | None) -> bool:
    distance = abs(mean - 1)
    sure = error is not None and distance > max(LEAST_DISTANCE, FAR_FROM_ONE * error)
    return sure or not MEAN_WEIGHT[0] <= mean <= MEAN_WEIGHT[1]
