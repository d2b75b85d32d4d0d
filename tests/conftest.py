"""Fixtures of the whole suite."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data sets: where WORLDLINE_DATA says, else beside the checkout."""
    given = os.environ.get("WORLDLINE_DATA")
    here = Path(given) if given else Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    if not here.is_dir():
        pytest.skip(f"the real data sets are not at {here} (set WORLDLINE_DATA)")
    return here.resolve()
