"""ScienceWorld's simulator: a Java program, one per process, that plays many episodes one request at a time.

The official Python wrapper starts a Java process per environment and lists all valid actions at every step; here
episodes share the process and the list is made on request. Never used from two threads.
"""

import functools
import json
import logging
import shutil
import weakref
from typing import Any

from worldline.types import InputError, WorldlineError

JAVA_OPTIONS = ("-Xmx2g", "-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
"""With the default identity hashes the order of objects, and so the texts, would change from process to process."""


def check_installed() -> None:
    """One line on what is missing, before anything is started."""
    try:
        import py4j  # noqa: F401 - only to see whether it is there
        import scienceworld  # noqa: F401 - likewise
    except ModuleNotFoundError:
        raise InputError("scienceworld is not installed: pip install 'worldline[scienceworld]'") from None
    if shutil.which("java") is None:
        raise InputError("scienceworld needs a Java runtime (17 will do) and finds no 'java' on the PATH: install one")


class Simulator:
    """One episode inside the Java process."""

    def __init__(self) -> None:
        if _gateway().java_process.poll() is not None:
            forget(_gateway())
        self._gateway = _gateway()
        self._java = self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        # py4j's proxies are cyclic garbage, of which Python sees too little to collect it: 12 MB of Java memory each.
        weakref.finalize(self, self._gateway.detach, self._java).atexit = False

    def load(self, task: str, variation: int, simplifications: str, *, gold: bool = False) -> None:
        """Set the stage for a variation of a task; with `gold`, work out a solution too."""
        self._call("load", task, variation, simplifications, gold)

    def start(self) -> str:
        """Back to the beginning; what there is to see."""
        self._call("reset")
        return self.step("look around")

    def step(self, action: str) -> str:
        return str(self._call("step", action))

    @property
    def score(self) -> int:
        """From -100 (failed for good) to 100."""
        return round(100 * float(self._call("getScore")))

    @property
    def completed(self) -> bool:
        return bool(self._call("getCompleted"))

    @property
    def description(self) -> str:
        return str(self._call("getTaskDescription"))

    def valid_actions(self) -> list[str]:
        """Everything that can be done here, sorted. Fetched in one piece: as a Java list, every item is a request."""
        listed = json.loads(self._call("getValidActionObjectCombinationsJSON"))
        return sorted({str(valid["action"]) for valid in listed["validActions"]})

    def gold_actions(self) -> tuple[str, ...]:
        return tuple(map(str, self._call("getGoldActionSequence")))

    def _call(self, method: str, *arguments: Any) -> Any:
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            return getattr(self._java, method)(*arguments)
        except Py4JJavaError as error:
            raise WorldlineError(f"scienceworld: the simulator failed: {error.java_exception}") from None
        except (Py4JError, OSError) as error:
            forget(self._gateway)
            raise WorldlineError(f"scienceworld: its Java process does not answer ({type(error).__name__})") from None


def forget(gateway: Any) -> None:
    """Give a Java process up: the next episode starts another, unless that has happened already."""
    gateway.java_process.kill()
    if _gateway.cache_info().currsize and _gateway() is gateway:
        _gateway.cache_clear()


@functools.cache
def _gateway() -> Any:
    """The Java process of this Python process; it ends when this one does."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JError
    from scienceworld.constants import BASEPATH, JAR_PATH

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it would log is raised as well
    options = list(JAVA_OPTIONS)
    try:
        port, process = launch_gateway(
            classpath=JAR_PATH, cwd=BASEPATH, javaopts=options, die_on_exit=True, return_proc=True
        )
    except (Py4JError, OSError) as error:
        raise WorldlineError(f"scienceworld: java does not start with {' '.join(options)}: {error}") from None
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_field=True), java_process=process)
