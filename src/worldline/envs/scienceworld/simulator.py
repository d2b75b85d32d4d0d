"""ScienceWorld's simulator: a Java program, one per process, that plays many episodes one request at a time.

The official Python wrapper starts a Java process per environment and lists all valid actions at every step; here
episodes share the process and the list is made when asked for. Never used from two threads.
"""

import functools
import json
import shutil
from typing import Any

from worldline.types import InputError, WorldlineError

JAVA_OPTIONS = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
"""With the default identity hashes the order of objects, and so the texts, would change from process to process."""


def check_installed() -> None:
    """One line on what is missing, before anything is started."""
    try:
        import py4j  # noqa: F401
        import scienceworld  # noqa: F401
    except ModuleNotFoundError:
        raise InputError("scienceworld is not installed: pip install 'worldline[scienceworld]'") from None
    if shutil.which("java") is None:
        raise InputError("scienceworld needs a Java runtime (17 will do) and finds no 'java' on the PATH: install one")


class Simulator:
    """One episode inside the Java process."""

    def __init__(self) -> None:
        self._java = _call(lambda: _gateway().jvm.scienceworld.runtime.pythonapi.PythonInterface())

    def load(self, task: str, variation: int, simplifications: str, *, gold: bool = False) -> None:
        """Set the stage for a variation of a task; with `gold`, work out a solution too."""
        _call(lambda: self._java.load(task, variation, simplifications, gold))

    def start(self) -> str:
        """Back to the beginning; what there is to see."""
        _call(self._java.reset)
        return self.step("look around")

    def step(self, action: str) -> str:
        return str(_call(lambda: self._java.step(action)))

    @property
    def score(self) -> int:
        """From -100 (failed for good) to 100."""
        return round(100 * float(_call(self._java.getScore)))

    @property
    def completed(self) -> bool:
        return bool(_call(self._java.getCompleted))

    @property
    def description(self) -> str:
        return str(_call(self._java.getTaskDescription))

    def valid_actions(self) -> list[str]:
        """Everything that can be done here, sorted. Fetched in one piece: as a Java list, every item is a request."""
        listed = json.loads(_call(self._java.getValidActionObjectCombinationsJSON))
        return sorted({str(valid["action"]) for valid in listed["validActions"]})

    def gold_actions(self) -> tuple[str, ...]:
        return tuple(map(str, _call(self._java.getGoldActionSequence)))


@functools.cache
def _gateway() -> Any:
    """The Java process of this Python process; it ends when this one does."""
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from scienceworld.constants import BASEPATH, JAR_PATH

    port, process = launch_gateway(
        classpath=JAR_PATH, cwd=BASEPATH, javaopts=list(JAVA_OPTIONS), die_on_exit=True, return_proc=True
    )
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_field=True), java_process=process)


def _call(request: Any) -> Any:
    """The answer to a request; a dead Java process is forgotten, so that the next episode starts another."""
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

    try:
        return request()
    except Py4JJavaError as error:
        raise WorldlineError(f"scienceworld: the simulator failed: {error.java_exception}") from None
    except (Py4JNetworkError, OSError) as error:
        _gateway.cache_clear()
        raise WorldlineError(f"scienceworld: the Java process is gone ({type(error).__name__}: {error})") from None
    except Py4JError as error:
        raise WorldlineError(f"scienceworld: {' '.join(str(error).split())}") from None
