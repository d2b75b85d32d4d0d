"""What tests share: where the real data sets are, that no hub is asked, accelerate as if it had just been imported."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["paw.start_policy"]

os.environ["HF_HUB_OFFLINE"] = "1"  # a test never asks the model hub


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test writes into the user's cache folder."""
    os.environ["WORLDLINE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets: $WORLDLINE_DATA, else `../shared/data` beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WORLDLINE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"needs the real data sets: no folder {folder} (set WORLDLINE_DATA)")
    return folder


@pytest.fixture
def fresh_accelerator() -> Iterator[None]:
    """accelerate remembers its precision for the life of the process; other tests use another."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
