"""Which sentences of an observation its episode has shown before (`--world.novel`): they are read, but no targets.

A sentence is a run of text up to and including full stops, exclamation marks, question marks or newlines: no world's
wording. Two are the same where their text is, but for the blanks around it. Not in the paper.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SENTENCE = re.compile(r"[^.!?\n]*[.!?\n]+|[^.!?\n]+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of an observation, and which of the observation's tokens overlap it."""

    text: str
    places: frozenset[int]


def sentences(text: str, offsets: Sequence[tuple[int, int]]) -> tuple[Sentence, ...]:
    """The sentences of `text`, whose tokens have these first and last characters."""
    parts = []
    for match in SENTENCE.finditer(text):
        low, high = match.span()
        places = frozenset(at for at, (start, end) in enumerate(offsets) if start < high and low < end)
        parts.append(Sentence(match.group().strip(), places))
    return tuple(parts)


def repeated_places(observations: Iterable[Sequence[Sentence]]) -> list[frozenset[int]]:
    """Of each observation of an episode, in time order, the tokens of sentences that an earlier one had."""
    earlier: set[str] = set()
    repeated = []
    for observation in observations:
        again = [sentence.places for sentence in observation if sentence.text in earlier]
        repeated.append(frozenset[int]().union(*again))
        earlier.update(sentence.text for sentence in observation)
    return repeated
