"""What a prompt shows when it may not show everything: the oldest history goes first, then the observation's middle.

Knows nothing of tokens: the caller says what fits.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from worldline.policies.prompts import Template
from worldline.types import Exchange, Turn

_ELLIPSIS = " ... "
_CUTS = 64


@dataclass
class Counts:
    """How many prompts there were, and how many of them had to leave something out."""

    prompts: int = 0
    dropped_history: int = 0
    cut_observation: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """The part of a turn that a prompt shows: its turn (the observation perhaps cut) and the last steps of its past."""

    turn: Turn
    history: Sequence[Exchange]


def view(template: Template, turn: Turn, history: int | Literal["all"] | None, longest: int) -> View:
    """What `template` shows of `turn`, with observations of at most `longest` characters: a 10 MB page is not
    tokenised to keep 2,000 tokens of it."""
    wanted = template.history(turn.family) if history is None else history
    past = turn.history if wanted in (None, "all") else turn.history[max(0, turn.step - int(wanted)) :]
    if any(len(exchange.observation) > longest for exchange in past):
        past = [Exchange(_without_middle(exchange.observation, longest), exchange.action) for exchange in past]
    if len(turn.observation) > longest:
        turn = replace(turn, observation=_without_middle(turn.observation, longest))
    return View(turn, past)


def shortened(shown: View, fits: Callable[[View], bool], counts: Counts) -> View:
    """The fullest view that fits; where even an empty observation does not, that one."""
    turn, history = shown.turn, shown.history

    def without(dropped: int) -> View:
        return View(turn, history[dropped:])

    def cut(share: int) -> View:
        keep = len(turn.observation) * (_CUTS - share) // _CUTS
        return View(replace(turn, observation=_without_middle(turn.observation, keep)), ())

    dropped = bisect_left(range(len(history)), True, key=lambda n: fits(without(n)))
    counts.dropped_history += dropped > 0
    if dropped < len(history) or fits(without(dropped)):
        return without(dropped)
    counts.cut_observation += 1
    return cut(bisect_left(range(_CUTS), True, key=lambda share: fits(cut(share))))


def _without_middle(text: str, keep: int) -> str:
    if len(text) <= keep:
        return text
    head = (keep + 1) // 2
    return f"{text[:head]}{_ELLIPSIS}{text[len(text) - (keep - head) :]}"
