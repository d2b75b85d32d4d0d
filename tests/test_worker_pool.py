"""Processes that share work: results in files, errors raised, none left behind."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from sendable import fail, leave
from worldline.worker_pool import run_all, worker_pool


def test_all_is_done_elsewhere_and_errors_are_raised(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in "abc"}
    finished: list[tuple[int, int]] = []
    with worker_pool(2) as pool:
        work = {name: partial(leave, path) for name, path in paths.items()}
        run_all(pool, work, lambda done, total, name: finished.append((done, total)))
        assert finished == [(1, 3), (2, 3), (3, 3)]
        processes = {int(path.read_text().split()[0]) for path in paths.values()}
        assert os.getpid() not in processes and len(processes) <= 2
        assert {path.read_text().split()[1] for path in paths.values()} == {"1"}, "one thread each"
        with pytest.raises(KeyError, match="nobody"):
            run_all(pool, {"x": fail})


HOST = """
import sys, time
from functools import partial
from pathlib import Path
from worldline.worker_pool import run_all, worker_pool
sys.path.insert(0, {folder!r})
from sendable import leave
if __name__ == "__main__":
    with worker_pool(1) as pool:
        run_all(pool, {{"leave": partial(leave, Path({path!r}))}})
        time.sleep(60)
"""


def test_a_worker_ends_with_a_killed_parent(tmp_path: Path) -> None:
    script, path = tmp_path / "host.py", tmp_path / "pid"
    script.write_text(HOST.format(folder=str(Path(__file__).parent), path=str(path)))
    host = subprocess.Popen([sys.executable, str(script)])
    try:
        _wait(path.is_file)
        worker = int(path.read_text().split()[0])
    finally:
        host.send_signal(signal.SIGKILL)
        host.wait()
    _wait(lambda: not Path(f"/proc/{worker}").exists() or "Z" in Path(f"/proc/{worker}/stat").read_text().split()[2])


def _wait(condition) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
