"""Epsilon-mixing: with probability epsilon a step is taken uniformly at random instead of by the policy.

One flip per step, from the turn's own seed, so policies mixed at the same seed flip at the same steps. The
log-probability of the mixture is exact, log((1 - eps) pi(a) + eps / |A|), whenever the inner policy can be scored.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from worldline.policies.choice import uniform
from worldline.policies.scripted import RandomPolicy, uniform_logprobs
from worldline.types import Decision, InputError, Policy, ScoringPolicy, Turn


def mix(policy: Policy, epsilon: float) -> Policy:
    """`policy` with an epsilon of uniform chance: a ScoringPolicy when `policy` is one, or when epsilon is 1."""
    if not 0.0 <= epsilon <= 1.0:
        raise InputError(f"--epsilon: must lie between 0 and 1, got {epsilon}")
    if epsilon == 0.0:
        return policy
    if epsilon == 1.0:
        return RandomPolicy(name=_name(policy, epsilon))
    if isinstance(policy, ScoringPolicy):
        return ScoringMixture(policy, epsilon)
    return Mixture(policy, epsilon)


def _name(policy: Policy, epsilon: float) -> str:
    return f"{policy.name}+eps{epsilon:g}"


class Mixture:
    """A mixture of a policy that cannot be scored: it acts, but the probability of what it did is unknown."""

    def __init__(self, policy: Policy, epsilon: float) -> None:
        self.name = _name(policy, epsilon)
        self.epsilon = epsilon
        self._policy = policy
        self._chance = RandomPolicy()

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [replace(decision, logprob=None) for decision in self._decide(turns, self._flips(turns))]

    def _flips(self, turns: Sequence[Turn]) -> list[bool]:
        return [uniform(turn.seed, "epsilon") < self.epsilon for turn in turns]

    def _decide(self, turns: Sequence[Turn], flips: Sequence[bool]) -> list[Decision]:
        asked = [turn for turn, flip in zip(turns, flips, strict=True) if not flip]
        inner = iter(self._policy.act(asked) if asked else ())
        return [self._chance.act([turn])[0] if flip else next(inner) for turn, flip in zip(turns, flips, strict=True)]


class ScoringMixture(Mixture):
    """A mixture with exact log-probabilities."""

    def __init__(self, policy: ScoringPolicy, epsilon: float) -> None:
        super().__init__(policy, epsilon)
        self._scoring = policy

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        flips = self._flips(turns)
        decisions = self._decide(turns, flips)
        # What the policy did itself it has scored already; only what chance did is left to ask for.
        unscored = [i for i, flip in enumerate(flips) if flip or decisions[i].logprob is None]
        own = [decision.logprob for decision in decisions]
        asked = [[decisions[i].action] for i in unscored]
        for i, scores in zip(unscored, self._scoring.logprobs([turns[i] for i in unscored], asked), strict=True):
            own[i] = float(scores[0])
        return [
            replace(decision, logprob=float(self._mixed(turn, [decision.action], np.array([score]))[0]))
            for turn, decision, score in zip(turns, decisions, own, strict=True)
        ]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        inner = self._scoring.logprobs(turns, actions)
        return [self._mixed(turn, asked, own) for turn, asked, own in zip(turns, actions, inner, strict=True)]

    def _mixed(self, turn: Turn, actions: Sequence[str], own: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        chance = uniform_logprobs(turn, actions, self.name)
        mixed: npt.NDArray[np.float64] = np.logaddexp(np.log1p(-self.epsilon) + own, np.log(self.epsilon) + chance)
        return mixed
