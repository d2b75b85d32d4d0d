"""The verbs from Python that are no modules of their own: `worldline.compare(...)`, `worldline.read(...)`.

Settings are those of the command line, by the same names, checked in the same way. What is returned has a repr
that says the result, and `_repr_html_` for notebooks.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from worldline.config import validate
from worldline.types import Trajectory

if TYPE_CHECKING:
    from worldline.comparison import Comparison

Paths = Sequence[Path | str] | Path | str


class CompareSettings(TypedDict, total=False):
    """As `worldline compare --help` has them."""

    policies: Sequence[str]
    baseline: str
    metric: str
    by: str
    cost: str
    confidence: float
    out: Path | str | None
    overwrite: bool


def compare(log: Paths, **settings: Unpack[CompareSettings]) -> "Comparison":
    """Logged policies against each other, paired by task."""
    from worldline.comparison import CompareConfig
    from worldline.comparison import compare as work

    return work(validate(CompareConfig, {"log": _listed(log), **settings}))


def read(
    log: Paths, *, policies: Sequence[str] | None = None, tasks: Sequence[str] | None = None
) -> Iterator[Trajectory]:
    """The episodes of logs, one after the other, of some policies or tasks if they are named."""
    from worldline import store

    return store.read(_listed(log), policies=policies, tasks=tasks)


def _listed(paths: Paths) -> list[Path | str]:
    return [paths] if isinstance(paths, Path | str) else list(paths)
