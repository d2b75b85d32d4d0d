"""Models of written logs, each fitted once."""

from collections.abc import Sequence

import pytest
import torch
from written_logs import lamps, shelves, walks

from worldline.kernel import gate, lists, outcome, outlook, wordings
from worldline.kernel.fitting import fit_kernel
from worldline.kernel.model import KernelModel
from worldline.types import Trajectory

Fit = tuple[KernelModel, dict[str, float]]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of a few steps: where it is not asked how good they are."""
    for module in (gate, lists, outcome, outlook, wordings):
        monkeypatch.setattr(module, "_STEPS", 50)


def _fitted(episodes: Sequence[Trajectory]) -> Fit:
    torch.set_num_threads(1)
    return fit_kernel(episodes, seed=0, steps=400)


@pytest.fixture(scope="session")
def lamp_fit() -> Fit:
    """Of 150 episodes of the two-state world, with its held-out figures."""
    return _fitted(lamps(150, seed=1))


@pytest.fixture(scope="session")
def shelf_fit() -> Fit:
    """Of 30 episodes of the world of lists."""
    return _fitted(shelves(30, seed=1))


@pytest.fixture(scope="session")
def gate_fit() -> Fit:
    """Of 50 walks to the gate."""
    return _fitted(walks(50, seed=1))


@pytest.fixture(scope="session")
def lamp_model(lamp_fit: Fit) -> KernelModel:
    return lamp_fit[0]


@pytest.fixture(scope="session")
def shelf_model(shelf_fit: Fit) -> KernelModel:
    return shelf_fit[0]


@pytest.fixture(scope="session")
def gate_model(gate_fit: Fit) -> KernelModel:
    return gate_fit[0]
