"""A passage, how a search engine's answer is written down for the agent, and how it is read back.

The form is Search-R1's: numbered documents with their title between <information> tags.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_DOCUMENT = re.compile(r"^Doc \d+\(Title: (?P<title>.*?)\) (?P<text>.*)$", re.MULTILINE)
NO_PASSAGE = "No passage matches."


@dataclass(frozen=True, slots=True)
class Passage:
    """A titled piece of the corpus."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What a search engine answered to a query, best first."""

    query: str
    passages: tuple[Passage, ...]


def write(passages: Iterable[Passage]) -> str:
    """`passages` as the observation after a search."""
    lines = [
        f"Doc {rank}(Title: {_flat(passage.title)}) {_flat(passage.text)}" for rank, passage in enumerate(passages, 1)
    ]
    return "<information>" + "\n".join(lines or [NO_PASSAGE]) + "</information>"


def read(observation: str) -> list[Passage]:
    """The passages of an observation; none where it is something else."""
    inside = observation.removeprefix("<information>").removesuffix("</information>")
    return [Passage(match["title"], match["text"]) for match in _DOCUMENT.finditer(inside)]


def _flat(text: str) -> str:
    return " ".join(text.split())
