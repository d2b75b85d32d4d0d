"""What tests share: where the real data sets are, that no hub is asked, accelerate as if it had just been imported,
workers that have imported everything already."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["paw.start_policy"]

os.environ["HF_HUB_OFFLINE"] = "1"  # a test never asks the model hub


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets: $WORLDLINE_DATA, else `../shared/data` beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("WORLDLINE_DATA", beside))
    if not folder.is_dir():
        pytest.skip(f"needs the real data sets: no folder {folder} (set WORLDLINE_DATA)")
    return folder


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers are forks, which need not import anything; `cli/test_demo.py` has one that starts afresh."""
    monkeypatch.setattr("worldline.worker_pool._START", "fork")


@pytest.fixture
def fresh_accelerator() -> Iterator[None]:
    """accelerate remembers its precision for the life of the process; other tests use another."""
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
