"""Policies without a model (expert, uniformly random, any function of a turn), and epsilon-mixing of any policy.

There is no generator object: `uniform` hashes the turn's seed and the purpose of the draw, so a draw depends neither on
earlier draws nor on the batch. With probability epsilon a step takes a uniformly random admissible action;
log-probabilities are those of the mixture (ADWM equation 39).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from worldline.config import shortened
from worldline.policies.checked_logprobs import check_decision, checked_rows
from worldline.types import Decision, InputError, Policy, ScoringPolicy, Turn, World, uniform


def pick(probabilities: Sequence[float] | npt.NDArray[np.float64], draw: float) -> int:
    """The index that inverse-CDF sampling gives for a uniform `draw`; never one of probability 0."""
    cumulative = np.cumsum(np.asarray(probabilities, dtype=np.float64))
    index = int(np.searchsorted(cumulative, draw * cumulative[-1], side="right"))
    return min(index, int(np.flatnonzero(probabilities)[-1]))


def admissible(turn: Turn, who: str) -> tuple[str, ...]:
    """The distinct admissible actions of `turn`; InputError if there are none."""
    actions = tuple(dict.fromkeys(turn.admissible or ()))
    if not actions:
        raise InputError(f"{who} chooses among admissible actions, and the environment lists none at step {turn.step}")
    return actions


Floats = npt.NDArray[np.float64]
LogProbs = list[Floats]


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
            np.array([0.0 if action == expert else -np.inf for action in candidates])
            for expert, candidates in zip(experts, actions, strict=True)
        ]


class RandomPolicy:
    """Uniform over the admissible actions."""

    def __init__(self, name: str = "random") -> None:
        self.name = name

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._draw(turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> LogProbs:
        return [uniform_logprobs(turn, candidates, self.name) for turn, candidates in zip(turns, actions, strict=True)]

    def _draw(self, turn: Turn) -> Decision:
        choices = admissible(turn, self.name)
        action = choices[int(uniform(turn.seed, "random") * len(choices))]
        return Decision(action=action, response=action, logprob=-float(np.log(len(choices))))


class FunctionPolicy:
    """A plain function from a turn to an action. Its probabilities are unknown."""

    def __init__(self, function: Callable[[Turn], str], name: str) -> None:
        self.name = name
        self._function = function

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._decision(turn) for turn in turns]

    def _decision(self, turn: Turn) -> Decision:
        action: object = self._function(turn)
        if not isinstance(action, str):
            raise InputError(f"policy '{self.name}' returned {shortened(action)}: it must return the action as text")
        return Decision(action=action, response=action)


def uniform_logprobs(turn: Turn, actions: Sequence[str], who: str) -> Floats:
    """log of 1/n for the n admissible actions, -inf for any other."""
    choices = frozenset(admissible(turn, who))
    return np.array([-np.log(len(choices)) if action in choices else -np.inf for action in actions])


def mixed_logprobs(own: Floats, chance: Floats, epsilon: float) -> Floats:
    """log((1 - epsilon) pi + epsilon uniform), from the log-probabilities of both (ADWM equation 39)."""
    if epsilon == 0:
        return own
    if epsilon == 1:
        return chance
    return np.asarray(np.logaddexp(np.log1p(-epsilon) + own, np.log(epsilon) + chance))


def mix(policy: Policy, epsilon: float, label: str = "") -> Policy:
    """`policy` mixed with the uniform policy: a ScoringPolicy if `policy` is one, or if epsilon is 1. Errors call it
    `label`, by default its own name."""
    if not 0.0 <= epsilon <= 1.0:
        raise InputError(f"--epsilon: must lie between 0 and 1, got {epsilon}")
    if epsilon == 0.0:
        return policy
    if epsilon == 1.0:
        return RandomPolicy(name=_name(policy, epsilon))
    if isinstance(policy, ScoringPolicy):
        return ScoringMixture(policy, epsilon, label or policy.name)
    return Mixture(policy, epsilon)


def _name(policy: Policy, epsilon: float) -> str:
    return f"{policy.name}+eps{epsilon:g}"


class Mixture:
    """A mixture with a policy that gives no log-probabilities: the probability of its action is unknown."""

    def __init__(self, policy: Policy, epsilon: float) -> None:
        self.name = _name(policy, epsilon)
        self.epsilon = epsilon
        self._policy = policy
        self._chance = RandomPolicy(f"--epsilon {epsilon:g}")

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [replace(decision, logprob=None) for decision in self._decide(turns, self._flips(turns))]

    def _flips(self, turns: Sequence[Turn]) -> list[bool]:
        return [uniform(turn.seed, "epsilon") < self.epsilon for turn in turns]

    def _decide(self, turns: Sequence[Turn], flips: Sequence[bool]) -> list[Decision]:
        undecided = [turn for turn, flip in zip(turns, flips, strict=True) if not flip]
        inner = iter(self._policy.act(undecided) if undecided else ())
        return [self._chance.act([turn])[0] if flip else next(inner) for turn, flip in zip(turns, flips, strict=True)]


class ScoringMixture(Mixture):
    """A mixture with exact log-probabilities."""

    def __init__(self, policy: ScoringPolicy, epsilon: float, label: str) -> None:
        super().__init__(policy, epsilon)
        self._scoring, self._label = policy, label
        self._sum_checked = False

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        flips = self._flips(turns)
        decisions = self._decide(turns, flips)
        for decision in decisions:
            check_decision(self._label, decision)
        # The policy has scored its own actions already; only those that chance took are left.
        unscored = [i for i, flip in enumerate(flips) if flip or decisions[i].logprob is None]
        own = [decision.logprob for decision in decisions]
        taken = [[decisions[i].action] for i in unscored]
        self._check_sum([turns[i] for i in unscored[:1]])
        for i, scores in zip(unscored, self._scored([turns[i] for i in unscored], taken), strict=True):
            own[i] = float(scores[0])
        return [
            replace(decision, logprob=float(self._mixed(turn, [decision.action], np.array([score]))[0]))
            for turn, decision, score in zip(turns, decisions, own, strict=True)
        ]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> LogProbs:
        inner = self._scored(turns, actions)
        return [self._mixed(turn, candidates, own) for turn, candidates, own in zip(turns, actions, inner, strict=True)]

    def _scored(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> LogProbs:
        return checked_rows(self._label, self._scoring.logprobs(turns, actions), actions)

    def _check_sum(self, turns: Sequence[Turn]) -> None:
        """The first time, score all that is admissible: what is taken alone has no sum that could exceed 1."""
        if turns and not self._sum_checked:
            self._scored(turns, [admissible(turn, self.name) for turn in turns])
            self._sum_checked = True

    def _mixed(self, turn: Turn, actions: Sequence[str], own: Floats) -> Floats:
        return mixed_logprobs(own, uniform_logprobs(turn, actions, self.name), self.epsilon)
