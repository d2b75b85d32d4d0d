"""Token sequences of an update: rows of which one is a prefix of another share one sequence.

Where the prompt only grows (a transcript), step t's `h_t | a_t | o_{t+1}` is a prefix of step t+1's. Under the
causal mask its tokens have the same probabilities there, so reading the longest of them reads all: an episode of
twenty steps costs one sequence instead of twenty. Where prompts are rewritten at every step, rows share nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from worldline.paw.rows import StepRow


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """One sequence, and the rows, by their place in the update, that are read off it."""

    tokens: tuple[int, ...]
    members: tuple[int, ...]


def token_sequences(
    rows: Sequence[StepRow], chosen: Iterable[int], world: Sequence[bool] | None
) -> list[TokenSequence]:
    """The fewest sequences that hold the rows `chosen`.

    `world` says for every row of the update whether its continuation is read; None reads no continuation, which is
    enough for old-policy and reference log-probabilities.
    """
    whole = []
    for index in chosen:
        row = rows[index]
        tail = row.continuation if world is not None and world[index] else ()
        whole.append((row.prompt + row.response + tail, index))
    sequences: list[tuple[tuple[int, ...], list[int]]] = []
    for tokens, index in sorted(whole, reverse=True):  # in this order a sequence follows those that it is a prefix of
        if sequences and sequences[-1][0][: len(tokens)] == tokens:
            sequences[-1][1].append(index)
        else:
            sequences.append((tokens, [index]))
    return [TokenSequence(tokens, tuple(members)) for tokens, members in sequences]
