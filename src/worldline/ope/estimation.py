"""The input of the estimators (one target on one log), the open table of estimators, and the function that runs them.

An estimator names the attributes of `EstimatorInput` that it needs; each is computed once, when first needed, or
refused with a reason. To add an estimator, add an entry: `ESTIMATORS | {"mine": Estimator(function, ("weights",))}`.
`evaluate` adds the world model's that way: `estimators.model_based` (AM) and `estimators.doubly_robust` (AM-DR).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt

from worldline.ope import estimators as e
from worldline.ope.estimators import Value
from worldline.ope.features import Features, Ridge
from worldline.ope.intervals import Interval, widened
from worldline.ope.log import Choices, Episodes, Matrix, RaggedLog, RefusalError, Steps, TargetLog
from worldline.ope.magic import magic
from worldline.ope.marginal import dice, embedded_ratios, state_marginal
from worldline.ope.values import behaviour_value, cross_fitted, linear_fqe, q_regression
from worldline.ope.weights import clipped, cumulative, log_ratios

Critic = Literal["linear", "network"]


@dataclass(frozen=True, eq=False)
class EstimatorInput:
    """A log, and, if given, the target's log-probabilities on it and the log's text features."""

    log: RaggedLog
    gamma: float
    target: TargetLog | None = None
    text: Callable[[], Features] | None = None
    """Called when an estimator first needs vectors."""
    clip: float | None = None
    """Largest weight of the clipped estimators; sqrt(episodes) if not given."""
    critic: Critic = "linear"
    """Which value function DR, WDR and MAGIC correct: `lfqe`'s or `fqe`'s."""
    seed: int = 0

    def take(self, episodes: npt.NDArray[np.int64]) -> "EstimatorInput":
        """The same on these episodes only."""
        taken = self.log.take(episodes)
        if taken is self.log:
            return self
        return replace(
            self,
            log=taken,
            target=self.target.of(self.log, episodes) if self.target else None,
            text=(lambda: self.features.take(self.log.step_rows(episodes))) if self.text else None,
        )

    def aimed(self, target: TargetLog | None) -> "EstimatorInput":
        """The same for another target."""
        return replace(self, target=target)

    @cached_property
    def ratios(self) -> Steps:
        return log_ratios(self.log, self._target)

    @cached_property
    def weights(self) -> Steps:
        ratios = self.ratios
        return self.log.each_step(lambda part, steps: cumulative(ratios[steps], part.offsets))

    @cached_property
    def clipped(self) -> Steps:
        weights, bound = self.weights, self.clip or float(np.sqrt(self.log.episodes))
        return self.log.each_step(lambda part, steps: clipped(weights[steps], bound))

    @cached_property
    def pooled(self) -> Steps:
        return cumulative(embedded_ratios(self.ratios, self.taken), self.log.offsets)

    @cached_property
    def features(self) -> Features:
        if self.text is None:
            raise RefusalError("needs the text of the log: this log has numbers only")
        return self.text()

    @property
    def states(self) -> Matrix:
        return self.features.states

    @property
    def taken(self) -> Ridge:
        return self.features.taken

    @cached_property
    def expected(self) -> Annotated[Matrix, "steps features"]:
        return self.features.expected(self._choices)

    @cached_property
    def lfqe(self) -> Value:
        return linear_fqe(self.log, self.gamma, self.taken, self.expected).read(self.taken.rows, self.expected)

    @cached_property
    def cross_fitted(self) -> Value:
        return cross_fitted(self.log, self.gamma, self.taken, self.expected, self.seed)

    @cached_property
    def fqe(self) -> Value:
        from worldline.ope.fqe import FQEConfig, fit

        return fit(self.log, self.gamma, self.features, self._choices, FQEConfig(seed=self.seed))

    @cached_property
    def qreg(self) -> Value:
        return q_regression(self.log, self.gamma, self.ratios, self.weights, self.taken, self.expected)

    @property
    def value(self) -> Value:
        return self.lfqe if self.critic == "linear" else self.fqe

    @property
    def _target(self) -> TargetLog:
        if self.target is None:
            raise RefusalError(
                "needs the target's log-probs: this policy cannot be scored (functions and API agents give none, an "
                "object with `logprobs` does: docs/policies.md); what works: worldline fit and --world-model, a clone "
                "of it (worldline sft) as candidate or --logger, or worldline compare on its own episodes"
            )
        return self.target

    @property
    def _choices(self) -> Choices:
        if self._target.choices is None:
            raise RefusalError(
                "needs the target's probabilities of all admissible actions, at every step: the log lists no actions "
                "(`admissible`), or the policy gives no probabilities of them"
            )
        return self._target.choices


@dataclass(frozen=True)
class Doubt:
    """An estimator's own uncertainty: a standard error that resampling tasks does not show, and a caveat."""

    error: float = 0.0
    caveat: str | None = None
    bias: float | None = None
    """The systematic part of `error`, as far as it stands out of noise; all of it where None."""


@dataclass(frozen=True)
class Estimator:
    """A function of (log, gamma, *needs) to one value per episode."""

    function: Callable[..., Episodes]
    needs: tuple[str, ...] = ()
    doubt: Callable[[], Doubt] | None = None
    """Called after the function: the fitted model's estimate of its own error."""
    modelled: bool = False
    """Whether the value is that of a fitted model which nothing corrects: its error is measured, see `model_error`."""
    guarded: bool = False
    """Whether it leans on weights only as far as these say something: its own caveat says where they are doubtful."""

    def __call__(self, evidence: EstimatorInput) -> Episodes:
        return self.function(evidence.log, evidence.gamma, *(getattr(evidence, need) for need in self.needs))


ESTIMATORS: dict[str, Estimator] = {
    "naive": Estimator(e.naive),
    "dm": Estimator(behaviour_value, ("states",)),
    "is": Estimator(e.importance, ("weights",)),
    "wis": Estimator(e.weighted_importance, ("weights",)),
    "pdis": Estimator(e.per_decision, ("weights",)),
    "pdwis": Estimator(e.weighted_per_decision, ("weights",)),
    "is-clip": Estimator(e.importance, ("clipped",)),
    "wis-clip": Estimator(e.weighted_importance, ("clipped",)),
    "pdis-clip": Estimator(e.per_decision, ("clipped",)),
    "pdwis-clip": Estimator(e.weighted_per_decision, ("clipped",)),
    "mips": Estimator(e.per_decision, ("pooled",), modelled=True),
    "mis": Estimator(state_marginal, ("ratios", "states"), modelled=True),
    "dice": Estimator(dice, ("taken", "expected"), modelled=True),
    "fqe": Estimator(e.start_value, ("fqe",), modelled=True),
    "lfqe": Estimator(e.start_value, ("lfqe",), modelled=True),
    "qreg": Estimator(e.start_value, ("qreg",), modelled=True),
    "dr": Estimator(e.doubly_robust, ("weights", "value")),
    "dr-cf": Estimator(e.doubly_robust, ("weights", "cross_fitted")),
    "dr-clip": Estimator(e.doubly_robust, ("clipped", "value")),
    "wdr": Estimator(e.weighted_doubly_robust, ("weights", "value")),
    "magic": Estimator(magic, ("weights", "value"), modelled=True),
}
TARGET_INDEPENDENT = frozenset({"naive", "dm"})
"""Estimators that ignore the target: they give every policy the same value."""
WEIGHTED = frozenset({"ratios", "weights", "clipped", "pooled", "qreg"})
"""Needs that are made of importance ratios: without overlap an estimator with one of them means nothing."""
WEIGHTS_ONLY = frozenset({"ratios", "weights", "clipped"})
"""Needs that a log without its text can serve."""
FITTED = frozenset({"cross_fitted", "expected", "fqe", "lfqe", "qreg", "value"})
"""Needs that are made of a value function at the target's own actions."""


@dataclass(frozen=True, eq=False)
class Values:
    """Per-episode values by estimator, and the reason of each estimator that gave none."""

    values: dict[str, Episodes]
    refused: dict[str, str]
    doubts: dict[str, Doubt] = field(default_factory=dict)

    def widened(self, name: str, interval: Interval, confidence: float) -> Interval:
        """`interval` with the estimator's own error added."""
        return widened(interval, self.doubts[name].error, confidence) if name in self.doubts else interval


def estimate(
    evidence: EstimatorInput, names: Sequence[str], estimators: Mapping[str, Estimator] = ESTIMATORS
) -> Values:
    """Run the named estimators; one that gives a value that is not finite is refused."""
    values: dict[str, Episodes] = {}
    refused: dict[str, str] = {}
    doubts: dict[str, Doubt] = {}
    for name in names:
        try:
            per_episode = estimators[name](evidence)
        except RefusalError as reason:
            refused[name] = str(reason)
            continue
        if np.isfinite(per_episode).all():
            values[name] = evidence.log.stored(per_episode)
            if (doubt := estimators[name].doubt) is not None:
                doubts[name] = doubt()
        else:
            refused[name] = "gave a value that is not a finite number"
    return Values(values, refused, doubts)
