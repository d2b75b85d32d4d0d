"""Policies left out of the log: does a model of the other policies' episodes give them the returns they had?

A new policy is what a world model is for, and a policy that the log does not have is as new. Its logged actions are
replayed in a model that is fitted without it, and in the bag beside it: the error of both is reported. That the bag's
is smaller is no reason to believe the bag: what is too high in some episodes and too low in others cancels in the mean
of one policy, and need not in that of another.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from worldline.kernel.bag import Bag
from worldline.kernel.model import KernelModel
from worldline.kernel.replay import replayed_returns
from worldline.types import Trajectory, derive_seed
from worldline.worker_pool import worker_pool

FEWEST, FITS = 3, 3
"""Policies of a log that this needs, and models that are fitted at most: where there are more, several are left out."""
EPISODES = 100
"""Episodes of a policy that are replayed at most."""
Biases = Sequence[npt.NDArray[np.float64]]
"""Of each policy, imagined minus logged return of each replayed episode."""
Fit: TypeAlias = Callable[[Sequence[Trajectory]], KernelModel]
Progress: TypeAlias = Callable[[int, int], None]
"""How much is done, of how much."""
Errors: TypeAlias = "Callable[[Progress], LeftOutErrors | None]"


@dataclass(frozen=True)
class LeftOutErrors:
    """Root mean squares over the policies of imagined minus logged mean return."""

    model: float
    bag: float


def _error(biases: Biases) -> float:
    return float(np.sqrt(np.mean([one.mean() ** 2 for one in biases])))


def fits_without(episodes: Sequence[Trajectory]) -> int:
    """The models that are fitted without some policies."""
    return FITS if len({episode.policy for episode in episodes}) >= FEWEST else 0


@contextmanager
def measuring_left_out(episodes: Sequence[Trajectory], fit: Fit, seed: int, jobs: int = 1) -> Iterator[Errors]:
    """What gives the errors on each policy in a model that `fit` makes of the others; None where policies are too few.

    With several jobs, other processes begin with it at once. Who asks for the errors watches the models.
    """
    policies = sorted({episode.policy for episode in episodes})
    away = [policies[first::FITS] for first in range(FITS)]
    parts = [partial(_biases, episodes, each, fit, seed) for each in away]
    if not fits_without(episodes):
        yield lambda progress: None
    elif jobs == 1:
        yield lambda progress: _joined(parts, progress)
    else:
        with worker_pool(min(jobs, FITS)) as pool:
            pending = [pool.submit(part) for part in parts]
            yield lambda progress: _joined([one.result for one in pending], progress)


def _joined(parts: Sequence[Callable[[], tuple[Biases, Biases]]], progress: Progress) -> LeftOutErrors:
    done: list[tuple[Biases, Biases]] = []
    for part in parts:
        progress(len(done), len(parts))
        done.append(part())
    of_model, of_bag = ([one for biases in done for one in biases[which]] for which in (0, 1))
    return LeftOutErrors(_error(of_model), _error(of_bag))


def _biases(episodes: Sequence[Trajectory], away: Collection[str], fit: Fit, seed: int) -> tuple[Biases, Biases]:
    """Of the policies `away`, in a model of the others' episodes and in the bag of these."""
    of_model: list[npt.NDArray[np.float64]] = []
    of_bag: list[npt.NDArray[np.float64]] = []
    with _one_thread():  # as in a process of a pool: sums are the same to the last digit
        model = fit([episode for episode in episodes if episode.policy not in away])
        for policy in away:
            own = [episode for episode in episodes if episode.policy == policy]
            order = np.random.default_rng(derive_seed(seed, "left out", policy)).permutation(len(own))
            replayed = [own[at] for at in order[:EPISODES]]
            logged = np.array([episode.episode_return for episode in replayed])
            for many, one in ((of_model, model), (of_bag, Bag(model.log))):
                many.append(replayed_returns(one, replayed, [-1] * len(replayed), seed) - logged)
    return of_model, of_bag


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
