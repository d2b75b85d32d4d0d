"""Models of written logs, each fitted once."""

import pytest
import torch
from written_logs import lamps, shelves, walks

from worldline.kernel.fitting import fit_kernel
from worldline.kernel.model import KernelModel


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def _fitted(episodes) -> KernelModel:  # type: ignore[no-untyped-def]
    torch.set_num_threads(1)
    return fit_kernel(episodes, seed=0, steps=400)[0]


@pytest.fixture(scope="session")
def lamp_model() -> KernelModel:
    """Of 150 episodes of the two-state world."""
    return _fitted(lamps(150, seed=1))


@pytest.fixture(scope="session")
def shelf_model() -> KernelModel:
    """Of 30 episodes of the world of lists."""
    return _fitted(shelves(30, seed=1))


@pytest.fixture(scope="session")
def gate_model() -> KernelModel:
    """Of 50 walks to the gate."""
    return _fitted(walks(50, seed=1))
