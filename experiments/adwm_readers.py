"""Scripted agents for real questions in `adwm_real.py`: they search, read, and answer as well as they are skilled.

There is no expert for real questions: these know the right answer, and say it with the probability of their skill once
they have read it, or if it is one of those that they remember. Their probabilities are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from worldline.envs.searchqa.candidates import answer_action
from worldline.envs.searchqa.match import normalise
from worldline.policies.mixing import pick
from worldline.types import Decision, Policy, Turn, World, uniform

SEARCH = "<search>"


@dataclass(frozen=True)
class Reader:
    """How an agent reads, as data; a `PolicySource`."""

    skill: float
    """Chance to give the right answer, when it answers and knows it; else any answer that is listed."""
    searches: tuple[float, ...] = (0.9, 0.4, 0.1)
    """Chance to search once more, by the number of turns so far; the last turn is for an answer."""
    memory: float = 0.0
    """Share of the questions whose answer it knows without reading."""

    @property
    def identity(self) -> str:
        return repr(self)

    def load(self, world: World) -> Policy:
        return ReadingPolicy(world, self)


class ReadingPolicy:
    """Plays a `Reader`."""

    def __init__(self, world: Any, reader: Reader) -> None:
        self._world, self._reader, self.name = world, reader, f"{reader}"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._drawn(turn) for turn in turns]

    def logprobs(self, turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        with np.errstate(divide="ignore"):
            return [
                np.log([options.get(action, 0.0) for action in scored])
                for turn, scored in zip(turns, actions, strict=True)
                for options in [self.options(turn)]
            ]

    def _drawn(self, turn: Turn) -> Decision:
        options = self.options(turn)
        chances = list(options.values())
        chosen = pick(chances, uniform(turn.seed, "reader"))
        action = list(options)[chosen]
        return Decision(action=action, response=action, logprob=float(np.log(chances[chosen] / sum(chances))))

    def options(self, turn: Turn) -> dict[str, float]:
        """The probability of every action that has any. Half of the searches are for the first query: the question."""
        reader, listed = self._reader, tuple(dict.fromkeys(turn.admissible or ()))
        queried = {exchange.action for exchange in turn.history}
        searches = [action for action in listed if action.startswith(SEARCH) and action not in queried]
        answers = [action for action in listed if not action.startswith(SEARCH)]
        more = reader.searches[turn.step] if turn.step < len(reader.searches) and searches else 0.0
        right = answer_action(self._world.question(turn.task).answers[0])
        knows = self._knows(turn, right)
        answers = answers or [right]
        weights = np.array([max(1.0, len(searches) - 1.0), *[1.0] * (len(searches) - 1)])[: len(searches)]
        options = dict(zip(searches, (more * weights / max(weights.sum(), 1.0)).tolist(), strict=True))
        skill = reader.skill if knows else 0.0
        for action in answers:
            options[action] = (1 - more) * (1 - skill) / len(answers)
        options[right] = options.get(right, 0.0) + (1 - more) * skill
        return {action: chance for action, chance in options.items() if chance > 0}

    def _knows(self, turn: Turn, right: str) -> bool:
        if uniform(0, "memory", turn.task) < self._reader.memory:
            return True
        seen = [turn.observation, *(exchange.observation for exchange in turn.history)]
        answer = normalise(right[len("<answer>") : -len("</answer>")])
        return any(answer in normalise(text) for text in seen)
