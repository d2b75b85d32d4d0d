"""`lake`: the slippery frozen lake of 4 x 4 squares (Gymnasium's FrozenLake), as text.

A step goes where it was meant to go, or to one of the two sides of that, each with probability 1/3. Holes and the flag
end the episode; the flag earns 1. Two wordings of the actions and two of the observations: the same world four times.
"""

import functools
import random
import re
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from worldline.config import option
from worldline.envs.small.script import Rule, latest_first
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

SQUARES = "SFFFFHFHFFFHHFFG"
WIDTH = 4
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Rows and columns of west, south, east, north: neighbours in this order are at right angles."""
WEST, SOUTH, EAST, NORTH = range(4)
ACTIONS = {
    "walk": ("walk west", "walk south", "walk east", "walk north"),
    "bare": ("left", "down", "right", "up"),
}
STEPS = 60


class LakeConfig(SmallConfig):
    """The frozen lake."""

    actions: Literal["walk", "bare"] = option("walk", help="wording of the actions: 'walk west' or 'left'")
    observations: Literal["rows", "squares"] = option("rows", help="wording of a place: 'row 2, column 3' or 'B3'")


def landing(square: int, move: int) -> int:
    """The square that a move ends on; the shore of the lake stops it."""
    row, column = divmod(square, WIDTH)
    down, right = MOVES[move]
    return min(max(row + down, 0), WIDTH - 1) * WIDTH + min(max(column + right, 0), WIDTH - 1)


def slips(move: int) -> tuple[int, int, int]:
    """The three moves that may become of one that is meant, equally likely."""
    return (move - 1) % 4, move, (move + 1) % 4


class LakeGame:
    """One crossing."""

    def __init__(self, config: LakeConfig, draw: random.Random) -> None:
        self._actions, self._by_rows, self._draw = ACTIONS[config.actions], config.observations == "rows", draw
        flag = "row 4, column 4" if self._by_rows else "square D4"
        self.goal = f"Cross the slippery lake and reach the flag on {flag}."
        self.square = 0

    def introduction(self) -> str:
        return self._view()

    def admissible(self) -> Sequence[str]:
        return self._actions

    def act(self, action: str) -> Reaction:
        if action not in self._actions:
            return Reaction("You stay where you are.", valid=False)
        self.square = landing(self.square, self._draw.choice(slips(self._actions.index(action))))
        won = SQUARES[self.square] == "G"
        return Reaction(self._view(), float(won), won or SQUARES[self.square] == "H", won)

    def _view(self) -> str:
        (row, column), kind = divmod(self.square, WIDTH), SQUARES[self.square]
        if self._by_rows:
            below = {"S": "the shore where you began", "F": "frozen ice", "H": "a hole: you fell in", "G": "the flag"}
            return f"You stand on row {row + 1}, column {column + 1}. Below your feet is {below[kind]}."
        here = {"S": "The start", "F": "Thick ice", "H": "Cold water! The ice has broken", "G": "You hold the flag"}
        return f"{'ABCD'[row]}{column + 1}. {here[kind]}."


class LakeWorld(SmallWorld):
    """The lake. Tasks are all alike: chance makes the difference."""

    name = "lake"
    max_steps = STEPS

    def __init__(self, config: LakeConfig | None = None) -> None:
        self.config: LakeConfig = config or LakeConfig()

    def game(self, task: random.Random, draw: random.Random) -> LakeGame:
        return LakeGame(self.config, draw)

    @property
    def scripts(self) -> Mapping[str, Rule]:
        steady, worst, dry = _steady(), _steady(worst=True), _steady(slippery=False)
        plan, actions = _plan(), ACTIONS[self.config.actions]

        def fixed(table: Sequence[int]) -> Rule:
            return lambda turn: actions[table[square_of(turn)]]

        def among(*moves: int) -> Rule:
            return lambda turn: {actions[move]: 1 / len(moves) for move in moves}

        def mistaken(square: int, move: int) -> Rule:
            return fixed([move if each == square else right for each, right in enumerate(steady)])

        return {
            "optimal": lambda turn: actions[plan[min(turn.step, STEPS - 1)][square_of(turn)]],
            "steady": fixed(steady),
            "mistaken near the flag": mistaken(14, NORTH),
            "mistaken at the start": mistaken(0, SOUTH),
            "mistaken in the middle": mistaken(9, EAST),
            "mistaken at the edge": mistaken(4, EAST),
            "as if dry": fixed(dry),
            "worst": fixed(worst),
            "random": among(WEST, SOUTH, EAST, NORTH),
            "south or east": among(SOUTH, EAST),
            "steady above": fixed([steady[square] if square < 8 else SOUTH for square in range(16)]),
        }


def square_of(turn: Turn) -> int:
    """The last square that was named; the first one where none was."""
    for text in latest_first(turn):
        if match := re.search(r"row (\d), column (\d)", text):
            return (int(match[1]) - 1) * WIDTH + int(match[2]) - 1
        if match := re.search(r"\b([A-D])([1-4])\b", text):
            return "ABCD".index(match[1]) * WIDTH + int(match[2]) - 1
    return 0


def transitions(*, slippery: bool = True) -> npt.NDArray[np.float64]:
    """P(next square | square, move), (16, 4, 16); holes and the flag are left no more."""
    table = np.zeros((16, 4, 16))
    for square, kind in enumerate(SQUARES):
        for move in range(4):
            possible = slips(move) if slippery else (move,)
            for slip in possible:
                table[square, move, square if kind in "HG" else landing(square, slip)] += 1 / len(possible)
    return table


FLAG = np.array([kind == "G" for kind in SQUARES], dtype=np.float64)


@functools.cache
def _plan() -> tuple[tuple[int, ...], ...]:
    """The best move of each square at each step: backward induction from the last one."""
    table, values, moves = transitions(), FLAG, []
    for _ in range(STEPS):
        quality = table @ values
        values = quality.max(1)
        moves.append(tuple(int(move) for move in np.argmax(quality.round(12), 1)))
    return tuple(reversed(moves))


@functools.cache
def _steady(*, slippery: bool = True, worst: bool = False) -> tuple[int, ...]:
    """The best (or worst) move of each square with endless time; without slipping, the shortest dry way."""
    table = transitions(slippery=slippery)
    values, discount = FLAG, 0.999 if slippery else 0.9
    for _ in range(3000):
        quality = table @ values
        values = np.where(FLAG, 1.0, discount * (quality.min(1) if worst else quality.max(1)))
    chosen = np.argmin(quality, 1) if worst else np.argmax(quality.round(9), 1)
    return tuple(int(move) for move in chosen)
