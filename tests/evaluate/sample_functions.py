"""Functions of a turn, which give no probabilities."""

from worldline.types import Turn


def first(turn: Turn) -> str:
    return turn.admissible[0] if turn.admissible else "look"
