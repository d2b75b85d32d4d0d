"""What tests share: where the real data sets are, and that no hub is asked."""

import os
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # a test never asks the model hub


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets: $WORLDLINE_DATA, else `../shared/data` beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WORLDLINE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"needs the real data sets: no folder {folder} (set WORLDLINE_DATA)")
    return folder
