"""Fixtures for the whole suite."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data sets beside the checkout (or at WORLDLINE_DATA)."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WORLDLINE_DATA", beside))
    if not folder.is_dir():
        pytest.skip("no data sets beside the checkout: set WORLDLINE_DATA to the folder that holds them")
    return folder
