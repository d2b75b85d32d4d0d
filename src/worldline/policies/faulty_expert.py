"""Scripted agents of graded quality: a world's expert that forgets, repeats itself, hurries or errs by chance.

Loggers and candidates for demonstrations and benchmarks, where a policy of known probabilities is needed at no cost.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from worldline.types import Decision, Policy, Turn, World, uniform

_VERB = re.compile(r"[\s\[>]")


@dataclass(frozen=True)
class Faults:
    """How an expert goes wrong: chances per step, and how many past exchanges it remembers (all: None).

    A `PolicySource`: its policy is the `FaultyExpert` of a world.
    """

    chance: float = 0.0
    """Takes a random admissible action."""
    again: float = 0.0
    """Repeats its last action."""
    haste: float = 0.0
    hasty: str = ""
    """Takes the first admissible action that begins so, if there is one."""
    fumble: float = 0.0
    """Takes another admissible action of the same verb."""
    memory: int | None = None

    @property
    def identity(self) -> str:
        return repr(self)

    def load(self, world: World) -> Policy:
        return FaultyExpert(world, self)


class FaultyExpert:
    """The world's expert with faults. Its probabilities are exact."""

    def __init__(self, world: World, faults: Faults) -> None:
        self._world, self._faults = world, faults
        self.name = f"expert with {faults}"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._drawn(self._options(turn), turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        with np.errstate(divide="ignore"):
            return [
                np.log([options.get(action, 0.0) for action in scored])
                for turn, scored in zip(turns, actions, strict=True)
                for options in [self._options(turn)]
            ]

    def _drawn(self, options: dict[str, float], turn: Turn) -> Decision:
        actions, chances = list(options), np.cumsum(list(options.values()))
        at = min(int(np.searchsorted(chances, uniform(turn.seed, "fault"), side="right")), len(actions) - 1)
        return Decision(action=actions[at], response=actions[at], logprob=float(np.log(options[actions[at]])))

    def _options(self, turn: Turn) -> dict[str, float]:
        """The probability of everything it might do, the faults in the order they are listed."""
        faults, listed = self._faults, tuple(turn.admissible or ())
        options: dict[str, float] = defaultdict(float)
        left = 1.0

        def spend(share: float, actions: Sequence[str]) -> None:
            nonlocal left
            if actions and share:
                for action in actions:
                    options[action] += left * share / len(actions)
                left *= 1 - share

        spend(faults.chance, listed)
        spend(faults.again, [turn.history[-1].action] if turn.history else [])
        spend(faults.haste, [action for action in listed if action.startswith(faults.hasty)][:1])
        own = self._own(turn)
        spend(faults.fumble, [a for a in listed if a != own and _VERB.split(a)[0] == _VERB.split(own)[0]])
        options[own] += left
        return {action: p for action, p in options.items() if p > 0}

    def _own(self, turn: Turn) -> str:
        memory = self._faults.memory
        if memory is not None and len(turn.history) > memory:
            # the first observation says what there is, and is not forgotten
            turn = replace(turn, history=(turn.history[0], *turn.history[len(turn.history) - memory :]))
        return self._world.expert(turn)
