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
        self._said: Ids = self._goal[:0]
        self._earlier: Ids = self._goal[:0]
        self._seen: Ids = self._goal[:0]

    def goal(self) -> Tokens:
        return Tokens(self._goal, np.zeros_like(self._goal))

    def observation(self, text: str) -> Tokens:
        if not self._text and self._opening:
            text = text if self._opening in text else f"{self._opening}\n{text}"
        self._opening = ""
        ids = self._seen = self._model.tokenizer.encode(text)
        return Tokens(ids, marks(ids, self._goal, self._said, self._earlier) if self._text else np.zeros_like(ids))

    def action(self, text: str) -> Tokens:
        ids = self._model.tokenizer.encode(text)
        self._earlier = np.union1d(self._earlier, self._said)
        marked = marks(ids, self._goal, self._seen, self._earlier) if self._text else np.zeros_like(ids)
        self._said = ids
        return Tokens(ids, marked, self._model.row(text))

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
