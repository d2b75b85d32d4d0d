"""Sending metrics to an experiment tracker as well: trackio (local) or Weights & Biases.

Both have the same three calls, so there is one implementation. Each is imported only when `--track` names it.
"""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from worldline.types import InputError

Tracker = Literal["trackio", "wandb"]
PROJECT = "worldline"

Log = Callable[[dict[str, Any]], None]


@contextmanager
def tracked(tracker: Tracker | None, run: str, config: dict[str, Any]) -> Iterator[Log]:
    """Gives a function that sends one line of metrics, numbered by its `update`; without a tracker it does nothing.

    The tracker hears of the run with its first line: a run that is refused before that leaves no trace there.
    """
    service = _service(tracker) if tracker else None
    begun = False

    def log(metrics: dict[str, Any]) -> None:
        nonlocal begun
        if service is None:
            return
        if not begun:
            service.init(project=PROJECT, name=run, config=config)
            begun = True
        service.log({key: value for key, value in metrics.items() if key != "update"}, step=int(metrics["update"]))

    try:
        yield log
    finally:
        if service is not None and begun:
            service.finish()


def _service(tracker: Tracker) -> Any:
    try:
        return importlib.import_module(tracker)
    except ImportError:
        raise InputError(f"--track {tracker}: not installed: pip install 'worldline[{tracker}]'") from None
