"""An episode as the networks read it: token ids, and marks on the words that other texts of the episode share.

The marks of an observation say which of its words are in the goal, in the action that led to it, in earlier actions;
those of an action say which are in the goal, in the observation it answers, in earlier actions. A reader is fed
text by text, so it serves logged episodes and imagined ones alike.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from worldline.adwm.model import Texts, WorldModel
from worldline.adwm.tokenizer import Ids, marks, padded


class Tokens(NamedTuple):
    """One text: ids and marks (L,), and its row in the action table."""

    ids: Ids
    marks: Ids
    row: int = 0


class Reader:
    """Reads one episode. `paper` knows neither goal channel nor marks: there the goal opens the first observation."""

    def __init__(self, model: WorldModel, goal: str) -> None:
        self._model = model
        self._text = model.architecture.text
        self._goal = model.tokenizer.encode(goal)
        self._opening = goal
        self._named = frozenset(self._goal.tolist())
        """The tokens of the goal; below, those of the last action, of the actions before it, of the last answer."""
        self._said: frozenset[int] = frozenset()
        self._earlier: frozenset[int] = frozenset()
        self._seen: frozenset[int] = frozenset()

    def goal(self) -> Tokens:
        return Tokens(self._goal, np.zeros_like(self._goal))

    def observation(self, text: str) -> Tokens:
        if not self._text and self._opening:
            text = text if self._opening in text else f"{self._opening}\n{text}"
        self._opening = ""
        ids = self._model.tokenizer.encode(text)
        self._seen = frozenset(ids.tolist())
        return Tokens(ids, self._marked(ids, self._said))

    def action(self, text: str) -> Tokens:
        ids = self._model.tokenizer.encode(text)
        self._earlier |= self._said
        self._said = frozenset(ids.tolist())
        return Tokens(ids, self._marked(ids, self._seen), self._model.row(text))

    def _marked(self, ids: Ids, beside: frozenset[int]) -> Ids:
        return marks(ids, self._named, beside, self._earlier) if self._text else np.zeros_like(ids)

    def copy(self) -> "Reader":
        twin = Reader.__new__(Reader)
        twin.__dict__ = dict(self.__dict__)
        return twin


def texts(rows: Sequence[Tokens], device: torch.device) -> Texts:
    """Tokens of several texts as one batch."""
    return Texts(
        torch.from_numpy(padded([row.ids for row in rows])).to(device),
        torch.from_numpy(padded([row.marks for row in rows])).to(device),
        torch.tensor([row.row for row in rows], device=device),
    )
