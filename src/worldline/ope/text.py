"""The text of a log: what the agent saw before each action, what it did and what was admissible, as codes and vectors.

Vectors are computed when an estimator first needs them, once per log.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np
import numpy.typing as npt

from worldline.ope.features import Features, Featuriser, HashedNgrams
from worldline.ope.names import coded
from worldline.types import Trajectory, Turn, turns


@dataclass(frozen=True, eq=False)
class TextLog:
    """Steps of all episodes end to end, as in `RaggedLog`."""

    turns: tuple[Turn, ...] = field(repr=False)
    taken: tuple[str, ...] = field(repr=False)
    featuriser: Featuriser = field(default_factory=HashedNgrams)

    @cached_property
    def options(self) -> tuple[tuple[str, ...], ...]:
        """The options of each step: the admissible actions, and the one taken if it is not among them."""
        pairs = zip(self.turns, self.taken, strict=True)
        return tuple(tuple(dict.fromkeys((*(turn.admissible or ()), action))) for turn, action in pairs)

    @cached_property
    def unlisted(self) -> int:
        """Steps whose admissible actions are unknown."""
        return sum(turn.admissible is None for turn in self.turns)

    @cached_property
    def listed(self) -> Annotated[npt.NDArray[np.int64], "steps"]:
        """How many actions were admissible at each step; 0 where that is unknown."""
        return np.array([len(set(turn.admissible or ())) for turn in self.turns], dtype=np.int64)

    @cached_property
    def chance(self) -> Annotated[npt.NDArray[np.float64], "steps"] | None:
        """log u(a|h) of each action taken, u uniform over the admissible ones: -inf of any other action.

        None where some steps do not say what was admissible.
        """
        if self.unlisted:
            return None
        pairs = zip(self.turns, self.taken, strict=True)
        inside = np.array([action in (turn.admissible or ()) for turn, action in pairs], dtype=np.bool_)
        return np.where(inside, -np.log(np.maximum(self.listed, 1)), -np.inf)

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """All action texts; codes point into this."""
        return tuple(sorted({action for options in self.options for action in options}))

    @cached_property
    def _code(self) -> dict[str, int]:
        return {action: code for code, action in enumerate(self.actions)}

    @cached_property
    def logged(self) -> Annotated[npt.NDArray[np.int64], "steps"]:
        return np.array([self._code[action] for action in self.taken], dtype=np.int64)

    @cached_property
    def option_codes(self) -> Annotated[npt.NDArray[np.int64], "choices"]:
        return np.array([self._code[action] for options in self.options for action in options], dtype=np.int64)

    @cached_property
    def option_offsets(self) -> Annotated[npt.NDArray[np.int64], "steps + 1"]:
        return np.concatenate([[0], np.cumsum([len(options) for options in self.options], dtype=np.int64)])

    @cached_property
    def places(self) -> Annotated[npt.NDArray[np.int64], "steps"]:
        """Steps with the same goal and observation share a code."""
        return coded([f"{turn.goal}\x1f{turn.observation}" for turn in self.turns]).codes

    @cached_property
    def features(self) -> Features:
        return Features(self.featuriser.states(self.turns), self.featuriser.actions(self.actions), self.logged)


def text_log(trajectories: Sequence[Trajectory], featuriser: Featuriser | None = None) -> TextLog:
    """The text of `trajectories`."""
    met = [turn for trajectory in trajectories for turn in turns(trajectory)]
    taken = [step.action for trajectory in trajectories for step in trajectory.steps]
    return TextLog(tuple(met), tuple(taken), featuriser or HashedNgrams())
