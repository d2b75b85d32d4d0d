"""Strands: rows of which one begins another share one sequence.

Where the prompt only grows (a transcript), step t's `h_t | a_t | o_{t+1}` is the beginning of step t+1's. Under the
causal mask its tokens have the same probabilities there, so reading the longest of them reads all: an episode of
twenty steps costs one sequence instead of twenty. Where prompts are rewritten at every step, every row is a strand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from worldline.paw.rows import Row


@dataclass(frozen=True, slots=True)
class Strand:
    """One sequence, and the rows, by their place in the update, that are read off it."""

    tokens: tuple[int, ...]
    members: tuple[int, ...]


def strands(rows: Sequence[Row], chosen: Iterable[int], world: Sequence[bool] | None) -> list[Strand]:
    """The fewest strands that hold the rows `chosen`.

    `world` says for every row of the update whether its continuation is read; None: nobody's is, which is all that
    old-policy and reference log-probabilities need.
    """
    whole = []
    for index in chosen:
        row = rows[index]
        tail = row.continuation if world is not None and world[index] else ()
        whole.append((row.prompt + row.response + tail, index))
    found: list[tuple[tuple[int, ...], list[int]]] = []
    for tokens, index in sorted(whole, reverse=True):  # whatever begins with a sequence stands right before it
        if found and found[-1][0][: len(tokens)] == tokens:
            found[-1][1].append(index)
        else:
            found.append((tokens, [index]))
    return [Strand(tokens, tuple(members)) for tokens, members in found]
