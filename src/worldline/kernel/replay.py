"""Open-loop replay: the logged actions played in a model of the log, each episode without its own record.

Does the model give the log's own policies the returns they had? The error is what an interval must hold where no policy
of the log can be played.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.model import KernelAnswer, StepRequest
from worldline.kernel.step_table import StepTable
from worldline.types import derive_seed, uniform

DRAWS = 3
"""Times that each episode is replayed."""


class StepModel(Protocol):
    """What answers the steps of an episode: the kernel model, or the bag."""

    @property
    def log(self) -> StepTable: ...

    def answer(self, requests: Sequence[StepRequest]) -> list[KernelAnswer]: ...


def replay_error(model: StepModel, numbers: Sequence[int], seed: int = 0) -> float:
    """Root mean square over the policies of the log of imagined minus logged mean return, on episodes `numbers`."""
    errors: dict[str, list[float]] = defaultdict(list)
    for number in numbers:
        episode = model.log.episodes[number]
        imagined = np.mean([_replayed_return(model, number, derive_seed(seed, number, at)) for at in range(DRAWS)])
        errors[episode.policy].append(float(imagined) - episode.episode_return)
    return float(np.sqrt(np.mean([np.mean(many) ** 2 for many in errors.values()])))


def _replayed_return(model: StepModel, number: int, seed: int) -> float:
    episode = model.log.episodes[number]
    first = episode.steps[0]
    state = EpisodeState(model.log.language, episode.task_id, episode.goal, first.observation, first.admissible)
    earned = 0.0
    for at, step in enumerate(episode.steps):
        draws = uniform(seed, "answer", at), uniform(seed, "outcome", at)
        request = StepRequest(state, step.action, *draws, derive_seed(seed, "turn", at) % 2**20, number)
        answer = model.answer([request])[0]
        earned += answer.outcome.reward
        if answer.outcome.ended:
            break
        state.advance(answer.description, answer.text, answer.outcome.reward, answer.listed)
    return earned
