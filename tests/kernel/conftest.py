"""Models of written logs, each fitted once."""

import pytest
import torch
from kernel_fits import Fit, fit_of_lamps, fit_of_shelves, fit_of_walks

from worldline.kernel import gate, lists, outcome, wordings
from worldline.kernel.model import KernelModel


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits of a few steps: where it is not asked how good they are."""
    for module in (gate, lists, outcome, wordings):
        monkeypatch.setattr(module, "_STEPS", 50)


@pytest.fixture(scope="session")
def lamp_fit() -> Fit:
    return fit_of_lamps()


@pytest.fixture(scope="session")
def shelf_fit() -> Fit:
    return fit_of_shelves()


@pytest.fixture(scope="session")
def gate_fit() -> Fit:
    return fit_of_walks()


@pytest.fixture(scope="session")
def lamp_model(lamp_fit: Fit) -> KernelModel:
    return lamp_fit[0]


@pytest.fixture(scope="session")
def shelf_model(shelf_fit: Fit) -> KernelModel:
    return shelf_fit[0]


@pytest.fixture(scope="session")
def gate_model(gate_fit: Fit) -> KernelModel:
    return gate_fit[0]
