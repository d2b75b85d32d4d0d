"""Policies left out of the log: does a model of the other policies' episodes give them the returns they had?

A new policy is what a world model is for, and a policy that the log does not have is as new. Its logged actions are
replayed in a model that is fitted without it, and in the bag beside it: the error of both is reported, and where the
bag's is clearly smaller, the bag leads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from worldline.kernel.bag import Bag
from worldline.kernel.model import KernelModel
from worldline.kernel.replay import StepModel, replayed_returns
from worldline.types import Trajectory, derive_seed

FEWEST, FITS = 3, 3
"""Policies of a log that this needs, and models that are fitted at most: where there are more, several are left out."""
EPISODES = 60
"""Episodes of a policy that are replayed at most."""
CLEARLY = 0.03
"""Share of the range of returns by which the bag's error must be smaller."""


@dataclass(frozen=True)
class LeftOutErrors:
    """Root mean squares over the policies of imagined minus logged mean return, and the range of logged returns."""

    model: float
    bag: float
    span: float

    @property
    def bag_leads(self) -> bool:
        return self.bag + CLEARLY * self.span < self.model


def left_out_errors(
    episodes: Sequence[Trajectory], fit: Callable[[Sequence[Trajectory]], KernelModel], seed: int
) -> LeftOutErrors | None:
    """The errors on each policy in a model that `fit` makes of the others; None where there are too few policies."""
    policies = sorted({episode.policy for episode in episodes})
    if len(policies) < FEWEST:
        return None
    of_model, of_bag = [], []
    for first in range(FITS):
        away = set(policies[first::FITS])
        model = fit([episode for episode in episodes if episode.policy not in away])
        for policy in sorted(away):
            own = [episode for episode in episodes if episode.policy == policy]
            order = np.random.default_rng(derive_seed(seed, "left out", policy)).permutation(len(own))
            replayed = [own[at] for at in order[:EPISODES]]
            of_model.append(_bias(model, replayed, seed))
            of_bag.append(_bias(Bag(model.log), replayed, seed))
    returns = [episode.episode_return for episode in episodes]
    return LeftOutErrors(_root_mean_square(of_model), _root_mean_square(of_bag), max(returns) - min(returns))


def _root_mean_square(values: Sequence[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _bias(model: StepModel, episodes: Sequence[Trajectory], seed: int) -> float:
    """Imagined minus logged mean return of episodes that the model's log does not have."""
    imagined = replayed_returns(model, episodes, [-1] * len(episodes), seed)
    return float(imagined.mean() - np.mean([episode.episode_return for episode in episodes]))
