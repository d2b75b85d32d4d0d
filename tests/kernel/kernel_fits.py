"""Models of written logs, each fitted once in a process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import pytest
import torch
from written_logs import lamps, shelves, walks

from worldline.kernel import gate
from worldline.kernel.fitting import fit_kernel
from worldline.kernel.model import KernelModel
from worldline.types import Trajectory

Fit = tuple[KernelModel, dict[str, float]]


@cache
def fit_of_lamps() -> Fit:
    """Of 150 episodes of the two-state world, with its held-out figures."""
    return _fitted(lamps(150, seed=1))


@cache
def fit_of_shelves() -> Fit:
    """Of 30 episodes of the world of lists."""
    return _fitted(shelves(30, seed=1))


@cache
def fit_of_walks() -> Fit:
    """Of 50 walks to the gate."""
    return _fitted(walks(50, seed=1))


@contextmanager
def fewer_updates() -> Iterator[None]:
    """A third of them for the gate, which is enough for worlds of a few words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gate, "_STEPS", gate._STEPS // 3)
        yield


def _fitted(episodes: Sequence[Trajectory]) -> Fit:
    torch.set_num_threads(1)
    with fewer_updates():
        return fit_kernel(episodes, seed=0, steps=400)
