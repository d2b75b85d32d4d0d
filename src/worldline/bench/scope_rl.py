"""The classical estimators against SCOPE-RL's, in one run on the same logs: values, seconds, seconds with intervals.

SCOPE-RL takes episodes of one length only, so these logs are such. Both get the same log-probabilities and the same Q,
a table; both resample as often. What is timed starts at the arrays of each and ends at numbers; the fastest of some
runs counts. SCOPE-RL resamples the episodes anew for each estimator and gives percentiles; we resample once for all, in
4,096 groups where there are more episodes, and correct bias and skewness.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from worldline.ope import estimators as e
from worldline.ope.estimation import Estimator, EstimatorInput, estimate
from worldline.ope.intervals import Interval, intervals
from worldline.ope.log import RaggedLog, TargetLog
from worldline.types import InputError

INSTALL = "--against scope-rl: SCOPE-RL is not installed: pip install scope-rl==0.2.1"
ESTIMATORS = {
    "is": "TrajectoryWiseImportanceSampling",
    "pdis": "PerDecisionImportanceSampling",
    "wis": "SelfNormalizedTIS",
    "pdwis": "SelfNormalizedPDIS",
    "dr": "DoublyRobust",
    "wdr": "SelfNormalizedDR",
}
"""Ours, and the class there."""
ACTIONS, STEPS, GAMMA = 4, 20, 0.95


@dataclass(frozen=True, eq=False)
class EqualLog:
    """A log of episodes of one length, as SCOPE-RL takes it: distributions over all actions at every step."""

    behaviour: npt.NDArray[np.float64]
    target: npt.NDArray[np.float64]
    action: npt.NDArray[np.int64]
    reward: npt.NDArray[np.float64]
    q: npt.NDArray[np.float64]
    length: int

    def __post_init__(self) -> None:
        if len(self.action) % self.length:
            raise InputError(f"{len(self.action)} steps are no whole number of episodes of {self.length}")

    @property
    def theirs(self) -> dict[str, Any]:
        """Arguments of SCOPE-RL's estimators."""
        return {
            "step_per_trajectory": self.length,
            "action": self.action,
            "reward": self.reward,
            "pscore": self.behaviour[np.arange(len(self.action)), self.action],
            "evaluation_policy_action_dist": self.target,
            "state_action_value_prediction": self.q,
            "gamma": GAMMA,
        }

    @property
    def ours(self) -> tuple[EstimatorInput, dict[str, Estimator]]:
        """The input of our estimators, and a table whose doubly robust ones take this Q."""
        rows, episodes = np.arange(len(self.action)), len(self.action) // self.length
        log = RaggedLog(
            rewards=self.reward,
            behaviour=np.log(self.behaviour[rows, self.action]),
            offsets=np.arange(episodes + 1) * self.length,
            tasks=np.arange(episodes),
            policies=np.zeros(episodes, dtype=np.int64),
            terminated=np.ones(episodes, dtype=np.bool_),
        )
        value = e.Value(self.q[rows, self.action], (self.q * self.target).sum(axis=1))
        table = {
            "is": Estimator(e.importance, ("weights",)),
            "pdis": Estimator(e.per_decision, ("weights",)),
            "wis": Estimator(e.weighted_importance, ("weights",)),
            "pdwis": Estimator(e.weighted_per_decision, ("weights",)),
            "dr": Estimator(lambda log, gamma, weights: e.doubly_robust(log, gamma, weights, value), ("weights",)),
            "wdr": Estimator(
                lambda log, gamma, weights: e.weighted_doubly_robust(log, gamma, weights, value), ("weights",)
            ),
        }
        target = TargetLog(np.log(self.target[rows, self.action]))
        return EstimatorInput(log, GAMMA, target=target), table


def equal_log(episodes: int, length: int = STEPS, seed: int = 0) -> EqualLog:
    """A random one: four actions, a target not far from its logger, Q without meaning."""
    rng = np.random.default_rng(seed)
    steps = episodes * length
    behaviour = rng.dirichlet(np.full(ACTIONS, 4.0), size=steps)
    target = 0.8 * behaviour + 0.2 * rng.dirichlet(np.full(ACTIONS, 4.0), size=steps)
    action = (rng.random((steps, 1)) > behaviour.cumsum(axis=1)).sum(axis=1).clip(max=ACTIONS - 1)
    return EqualLog(behaviour, target, action, rng.random(steps), rng.normal(0.5, 0.3, (steps, ACTIONS)), length)


def rival() -> dict[str, Callable[[], Any]]:
    """SCOPE-RL's estimators by our names; InputError where it is not installed."""
    try:
        module = import_module("scope_rl.ope.discrete")
    except ImportError as error:
        raise InputError(f"{INSTALL} ({error})") from None
    return {name: getattr(module, kind) for name, kind in ESTIMATORS.items()}


def compared(log: EqualLog, replicates: int, repeats: int) -> list[dict[str, Any]]:
    """A row per estimator, the values of both, and one of all of them with the seconds of both."""
    classes = rival()
    evidence, table = log.ours
    ours, our_seconds = _fastest(lambda: our_values(evidence, table), repeats)
    theirs, their_seconds = _fastest(
        lambda: {name: float(kind().estimate_policy_value(**log.theirs)) for name, kind in classes.items()}, repeats
    )
    rows: list[dict[str, Any]] = [
        {"episodes": evidence.log.episodes, "estimator": name, "ours": ours[name], "theirs": theirs[name]}
        for name in ESTIMATORS
    ]
    _, our_interval_seconds = _fastest(lambda: our_intervals(evidence, table, replicates), repeats)
    settings = {"ci": "bootstrap", "n_bootstrap_samples": replicates, "random_state": 0, "alpha": 0.05}
    _, their_interval_seconds = _fastest(
        lambda: [kind().estimate_interval(**log.theirs, **settings) for kind in classes.values()], repeats
    )
    rows.append(
        {
            "episodes": evidence.log.episodes,
            "estimator": "all",
            "largest_difference": max(abs(ours[name] - theirs[name]) for name in ESTIMATORS),
            "our_seconds": our_seconds,
            "their_seconds": their_seconds,
            "times_faster": their_seconds / our_seconds,
            "our_interval_seconds": our_interval_seconds,
            "their_interval_seconds": their_interval_seconds,
            "times_faster_with_intervals": their_interval_seconds / our_interval_seconds,
        }
    )
    return rows


def our_values(evidence: EstimatorInput, table: dict[str, Estimator]) -> dict[str, float]:
    """Nothing is kept from a run before."""
    values = estimate(_fresh(evidence), list(ESTIMATORS), table).values
    return {name: float(each.mean()) for name, each in values.items()}


def our_intervals(evidence: EstimatorInput, table: dict[str, Estimator], replicates: int) -> list[Interval]:
    values = estimate(_fresh(evidence), list(ESTIMATORS), table).values
    return intervals(list(values.values()), evidence.log.tasks, replicates=replicates)


def _fresh(evidence: EstimatorInput) -> EstimatorInput:
    log = evidence.log
    again = RaggedLog(log.rewards, log.behaviour, log.offsets, log.tasks, log.policies, log.terminated)
    return EstimatorInput(again, evidence.gamma, target=evidence.target)


def _fastest(work: Callable[[], Any], repeats: int) -> tuple[Any, float]:
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begun)
    return result, min(seconds)
