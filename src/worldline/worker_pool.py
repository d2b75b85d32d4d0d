"""Processes that share the work of one command: each computes on one thread, and none outlives the command.

They are this machine's (the standard library's pool), or Ray's with `--engine ray`.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager

from worldline.ray_pool import RayPool, check_engine, ray_pool

WorkerPool = ProcessPoolExecutor | RayPool
_START = "spawn"
"""How a process starts: afresh, with none of its parent's threads."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""What numpy's libraries read when they are loaded."""


@contextmanager
def worker_pool(jobs: int, engine: str = "local") -> Iterator[WorkerPool]:
    """`jobs` fresh processes; when the block raises, what has not begun is not done; an interrupt ends them at once."""
    check_engine(engine)
    if engine != "local":
        with ray_pool(engine, jobs) as ray, ray.failures():
            yield ray
        return
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context(_START), _begin)
    with one_thread_each():
        for _ in range(jobs):  # a process starts with each task that finds none idle
            pool.submit(os.getpid)
    try:
        yield pool
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):  # what they write is whole or not there: nothing to wait for
            for worker in multiprocessing.active_children():
                worker.terminate()
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown()


def run_all(
    pool: WorkerPool,
    work: Mapping[str, Callable[[], object]],
    watch: Callable[[int, int, str], None] = lambda done, total, name: None,
) -> None:
    """Call everything in `work`, in the pool; `watch` hears of each that is done. The first error is raised."""
    futures = {pool.submit(_call, one): name for name, one in work.items()}
    for done, future in enumerate(as_completed(futures), start=1):
        future.result()
        watch(done, len(futures), futures[future])


def _call(one: Callable[[], object]) -> None:
    one()  # what it returns stays there: results are in files


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Processes that start meanwhile have one thread, in numpy too: threads that wait for each other cost more."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin() -> None:
    import torch

    torch.set_num_threads(1)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
