"""Open-loop replay: the logged actions played in a model of the log, each episode without its own record.

Does the model give the log's own policies the returns they had? The error is what an interval must hold where no policy
of the log can be played.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from worldline.kernel.answers import KernelAnswer, StepRequest
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.step_table import StepTable
from worldline.types import Trajectory, derive_seed, uniform

DRAWS = 3
"""Times that each episode is replayed."""


class StepModel(Protocol):
    """What answers the steps of an episode: the kernel model, or the bag."""

    @property
    def log(self) -> StepTable: ...

    def answer(self, requests: Sequence[StepRequest]) -> list[KernelAnswer]: ...


def replay_error(model: StepModel, numbers: Sequence[int], seed: int = 0) -> float:
    """Root mean square over the policies of the log of imagined minus logged mean return, on episodes `numbers`."""
    episodes = [model.log.episodes[number] for number in numbers]
    drawn = [replayed_returns(model, episodes, numbers, derive_seed(seed, at)) for at in range(DRAWS)]
    errors: dict[str, list[float]] = defaultdict(list)
    for episode, imagined in zip(episodes, np.mean(drawn, 0).tolist(), strict=True):
        errors[episode.policy].append(imagined - episode.episode_return)
    return float(np.sqrt(np.mean([np.mean(many) ** 2 for many in errors.values()])))


def replayed_returns(
    model: StepModel, episodes: Sequence[Trajectory], own: Sequence[int], seed: int
) -> npt.NDArray[np.float64]:
    """The returns of the episodes' actions in the model. `own` is the number of each in its log; -1: it has none."""
    states = [
        EpisodeState(model.log.language, e.task_id, e.goal, e.steps[0].observation, e.steps[0].admissible)
        for e in episodes
    ]
    returns = np.zeros(len(episodes))
    going = list(range(len(episodes)))
    step = 0
    while going := [at for at in going if step < len(episodes[at])]:
        requests = []
        for at in going:
            draws = uniform(seed, "answer", at, step), uniform(seed, "outcome", at, step)
            turn = derive_seed(seed, "turn", at, step) % 2**20
            requests.append(StepRequest(states[at], episodes[at].steps[step].action, *draws, turn, own[at]))
        ended = set()
        for at, answer in zip(going, model.answer(requests), strict=True):
            returns[at] += answer.outcome.reward
            if answer.outcome.ended:
                ended.add(at)
            else:
                states[at].advance(answer.description, answer.text, answer.outcome.reward, answer.listed)
        going = [at for at in going if at not in ended]
        step += 1
    return returns
