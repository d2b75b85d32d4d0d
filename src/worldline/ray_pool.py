"""Ray as the pool that shares the work of one command: the cluster of $RAY_ADDRESS or `ray://HOST:PORT`, or a Ray of
its own on this machine for as long as the command takes.

A Ray of its own has a token of its own and a temporary folder that goes with it: nothing is left in the home folder.
A task whose process or machine dies is done again by Ray; tasks must therefore see what they have done before. An error
that a task raises is raised here. Left out: actors, object stores, autoscaling: results lie in files.
"""

import functools
import importlib.util
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from worldline.types import InputError, WorldlineError

RAY = "ray"
_RETRIES = 5
"""How often a task whose process died is done again."""
_STORE_BYTES = 80 * 2**20
"""Ray's store of results, which are small here; its default is a third of the memory."""
_HEAD_SECONDS = 10
"""How long the processes of a Ray of its own wait for a head that does not answer."""
_FOLDER = "worldline-ray-"
T = TypeVar("T")


class RayPool:
    """Calls functions in Ray's worker processes; each call takes one core and `gpus`."""

    def __init__(self, ray: Any, gpus: float = 0.0) -> None:
        self._ray = ray
        self._options: dict[str, Any] = {"num_cpus": 1, "max_retries": _RETRIES}
        if gpus:
            self._options["num_gpus"] = gpus

    @property
    def cores(self) -> int:
        """Of the whole cluster."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, work: Callable[..., T], /, *arguments: Any) -> "Future[T]":
        """As of an executor of the standard library. The function runs in this command's folder."""
        remote = self._ray.remote(**self._options)(_call)
        future: Future[T] = remote.remote(os.getcwd(), work, arguments).future()
        return future

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Within the block, what Ray itself fails with is one line; what a task raised is raised as it was."""
        try:
            yield
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            cause = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise WorldlineError(f"--engine ray: {cause}; what is finished is kept, --resume goes on") from None


def check_engine(engine: str) -> None:
    """InputError unless it is `local`, `ray` or `ray://HOST:PORT`."""
    if engine not in ("local", RAY) and not engine.startswith("ray://"):
        raise InputError(f"--engine {engine}: give local, ray or ray://HOST:PORT")


@contextmanager
def ray_pool(engine: str, workers: int = 0, gpus: float = 0.0) -> Iterator[RayPool]:
    """The pool of an engine. A Ray of its own has `workers` processes (0: one a core); a cluster has its own size."""
    if importlib.util.find_spec("ray") is None:
        raise InputError("--engine ray needs Ray: pip install 'worldline[ray]'")
    address = engine if engine != RAY else os.environ.get("RAY_ADDRESS", "")
    with ExitStack() as end:
        import ray

        if not address:
            end.enter_context(_own_token())
        if not ray.is_initialized():
            try:
                with _own_handler():
                    ray.init(
                        address or "local", log_to_driver=False, logging_level="ERROR", **_own(address, workers, end)
                    )
            except (ConnectionError, ValueError, RuntimeError) as error:
                where = f"at {address}" if address else "on this machine"
                cause = " ".join(str(error).split())[:300]
                raise InputError(f"--engine {engine}: no Ray could be reached or started {where}: {cause}") from None
            end.callback(ray.shutdown)
        yield RayPool(ray, gpus)


def _own(address: str, workers: int, end: ExitStack) -> dict[str, Any]:
    """The settings of a Ray for this command alone; a cluster has its own."""
    if address:
        return {}
    remove_leftovers()
    prefix = f"{_FOLDER}{os.getpid()}-"
    folder = end.enter_context(tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True))
    return {
        "_system_config": {"gcs_rpc_server_reconnect_timeout_s": _HEAD_SECONDS},
        "num_cpus": workers or os.cpu_count() or 1,
        "include_dashboard": False,
        "object_store_memory": _STORE_BYTES,
        "_temp_dir": folder,
    }


def remove_leftovers() -> None:
    """Folders of commands that were killed: where Ray's head dies, Ray ends this process without a last word."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        owner = folder.name.removeprefix(_FOLDER).partition("-")[0]
        try:
            os.kill(int(owner), 0)
        except ProcessLookupError:
            shutil.rmtree(folder, ignore_errors=True)
        except (ValueError, PermissionError):
            continue  # none of ours, or somebody else's


@contextmanager
def _own_token() -> Iterator[None]:
    """Ray asks its processes for a token (it sets RAY_AUTH_MODE), and would write one into the home folder."""
    own = {"RAY_AUTH_TOKEN": _token(), "RAY_USAGE_STATS_ENABLED": "0"}
    before = {name: os.environ.get(name) for name in (*own, "RAY_AUTH_MODE")}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@functools.cache
def _token() -> str:
    """One for the life of this process, as Ray keeps the first it reads."""
    return secrets.token_hex(32)


@contextmanager
def _own_handler() -> Iterator[None]:
    """Ray would have SIGTERM end the process in its own way."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


def _call(folder: str, work: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    """In a worker: relative paths, and modules beside the user's files, mean what they mean to the command."""
    os.chdir(folder)
    return work(*arguments)
