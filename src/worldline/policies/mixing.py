"""Policies without a model (expert, uniform chance, any function of a turn), and epsilon-mixing of any policy.

There is no generator object: each draw is a hash of the turn's seed and of what it is for, so it does not depend on
which draws were made before, by whom, or in which batch. With probability epsilon a step takes a uniformly random
admissible action; log-probabilities are those of the mixture (ADWM equation 39).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from worldline.types import Decision, InputError, Policy, ScoringPolicy, Turn, World, uniform


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


LogProbs = list[npt.NDArray[np.float64]]


class ExpertPolicy:
    """What the world's own expert does: deterministic, so its log-probabilities are 0 and -inf."""

    name = "expert"

    def __init__(self, world: World) -> None:
        self._world = world

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        actions = (self._world.expert(turn) for turn in turns)
        return [Decision(action=action, response=action, logprob=0.0) for action in actions]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> LogProbs:
        experts = (self._world.expert(turn) for turn in turns)
        return [
            np.array([0.0 if action == expert else -np.inf for action in asked])
            for expert, asked in zip(experts, actions, strict=True)
        ]


class RandomPolicy:
    """Uniform over the admissible actions."""

    def __init__(self, name: str = "random") -> None:
        self.name = name

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._draw(turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> LogProbs:
        return [uniform_logprobs(turn, asked, self.name) for turn, asked in zip(turns, actions, strict=True)]

    def _draw(self, turn: Turn) -> Decision:
        choices = admissible(turn, self.name)
        action = choices[int(uniform(turn.seed, "random") * len(choices))]
        return Decision(action=action, response=action, logprob=-float(np.log(len(choices))))


class FunctionPolicy:
    """A plain function from a turn to an action. Nothing is known about its probabilities."""

    def __init__(self, function: Callable[[Turn], str], name: str) -> None:
        self.name = name
        self._function = function

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        actions = (self._function(turn) for turn in turns)
        return [Decision(action=action, response=action) for action in actions]


def uniform_logprobs(turn: Turn, actions: Sequence[str], who: str) -> npt.NDArray[np.float64]:
    """log of 1/n for the n admissible actions, -inf for any other."""
    choices = frozenset(admissible(turn, who))
    return np.array([-np.log(len(choices)) if action in choices else -np.inf for action in actions])


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
