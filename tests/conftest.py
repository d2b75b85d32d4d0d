"""What tests share: where the real data sets are, that no hub is called, accelerate as if it had just been imported,
workers that have imported everything already; which modules come first, and which run in one process."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest_plugins = ["paw.start_policy"]

os.environ["HF_HUB_OFFLINE"] = "1"  # a test never asks the model hub

FORKING = (
    "adwm/test_faults_fit.py",
    "paw/test_faults_train.py",
    "sft/test_faults_sft.py",
    "cli/test_import.py",
    "test_faults_collect.py",
    "evaluate/test_evaluation.py",
)
"""Modules that fork at every file system call come before all others: a fork copies the page tables of a process,
which grows with every test: cloning takes 7 CPU-seconds here and 11 at the end."""

LONGEST = (
    *FORKING,
    "adwm/soft_tokens",
    "adwm",
    "evaluate/test_world_model.py",
    "kernel",
    "store/test_writer.py",
    "cli/test_demo.py",
    "paw",
    "fuzz",
    "test_examples.py",
    "evaluate",
    "bench",
    "policies/language_model",
    "sft",
    "test_collect.py",
    "envs",
    "report",
    "ope",
)
"""Folders and modules that take longest begin first: else one process works on them while the others are done."""


TOGETHER = {
    "tests/adwm/test_kernel_env.py": "kernel",
    "tests/adwm/test_pessimistic_world.py": "kernel",
    "tests/kernel/": "kernel",
    "tests/adwm/": "adwm",
}
"""Modules that read the same fitted world models, which take long, run in one process."""


def pytest_configure() -> None:
    """A shell starts background jobs with interrupts ignored, and their children inherit it: tests send interrupts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    tests = Path(__file__).parent

    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(tests).as_posix()
        return next((at for at, name in enumerate(LONGEST) if f"{path}/".startswith(f"{name}/")), len(LONGEST))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not look at all of it again and again, nor forks copy it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class FolderScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist is there when this is called
        def _split_scope(self, nodeid: str) -> str:
            groups = [group for path, group in TOGETHER.items() if nodeid.startswith(path)]
            return groups[0] if groups else super()._split_scope(nodeid)

    return FolderScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test writes into the user's cache folder."""
    os.environ["WORLDLINE_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing is synced: processes die in tests, machines do not, and a sync takes longer than most writes here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


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
