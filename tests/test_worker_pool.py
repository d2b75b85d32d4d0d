"""Processes that share a command's work: an error is heard of, and an interrupt ends them."""

import multiprocessing
import os
import time
from functools import partial

import pytest

from worldline.worker_pool import run_all, worker_pool


def test_an_interrupt_does_not_wait_for_work_that_has_begun() -> None:
    started, others = time.monotonic(), set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt), worker_pool(1) as pool:
        pool.submit(time.sleep, 300)
        (worker,) = set(multiprocessing.active_children()) - others
        raise KeyboardInterrupt
    assert not worker.is_alive()
    assert time.monotonic() - started < 100


def test_everything_is_done_and_the_first_error_is_raised() -> None:
    names: list[str] = []
    with worker_pool(1) as pool:
        run_all(pool, {"a": partial(int, "1"), "b": partial(int, "2")}, lambda done, total, name: names.append(name))
        with pytest.raises(ValueError, match="invalid literal"):
            run_all(pool, {"c": partial(int, "x")})
    assert sorted(names) == ["a", "b"]


def _threads() -> tuple[int, tuple[str | None, str | None]]:
    """This process, and how many threads it may have; slow enough that no process does all of the work."""
    time.sleep(0.5)
    return os.getpid(), (os.environ.get("OMP_NUM_THREADS"), os.environ.get("OPENBLAS_NUM_THREADS"))


def test_processes_have_one_thread_and_this_one_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    with worker_pool(2) as pool:
        processes = dict(future.result() for future in [pool.submit(_threads) for _ in range(8)])
    assert len(processes) == 2, "both are looked at"
    assert set(processes.values()) == {("1", "1")}
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ
