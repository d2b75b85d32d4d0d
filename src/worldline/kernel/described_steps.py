"""A sample of logged steps for the fit, each answered by the other episodes; several processes may share the work."""

import pickle
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

import numpy as np
import numpy.typing as npt

from worldline.kernel.credit import agreement, closeness
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.features import LIKELIHOODS, SHARED_FACTS
from worldline.kernel.gate import Exercise
from worldline.kernel.model import Considered, KernelModel
from worldline.kernel.step_table import LoggedStep
from worldline.types import Trajectory, derive_seed
from worldline.worker_pool import worker_pool

OTHER_POLICIES = 0.5
"""Share of the steps that are answered by episodes of other policies alone: so will those of a new policy be."""
_LEAST_WEIGHT = 0.3
"""Of a step to the gate, where few of the others are in the sample."""
_SHARES = 4
"""Parts of the work that each process gets: none waits long for the last one."""
Progress = Callable[[int, int], None]
"""How much is done, of how much."""


@dataclass(frozen=True)
class DescribedStep:
    """A logged step with its candidates."""

    row: LoggedStep
    considered: Considered
    exercise: Exercise
    state: EpisodeState
    """Before the step."""
    weight: float
    """1; less for a step that was likelier to be in the sample than others."""
    as_new: bool

    @property
    def sort(self) -> str:
        """The sort of what was answered."""
        return self.state.language.sort(self.row.answer, self.considered.step.phrase)

    def worded(self, model: KernelModel) -> "DescribedStep":
        """With what the wording model says of its candidates."""
        features = model.described(self.considered, self.row.episode)
        considered = replace(self.considered, features=features[:, : self.considered.features.shape[1]])
        return replace(self, considered=considered, exercise=replace(self.exercise, features=features))

    def unexpecting(self) -> "DescribedStep":
        """Without what is expected of its candidates."""
        return self._without(LIKELIHOODS)

    def unshared(self) -> "DescribedStep":
        """Without what its candidates share with other episodes."""
        return self._without(SHARED_FACTS)

    def _without(self, columns: slice | list[int]) -> "DescribedStep":
        features, considered = self.exercise.features.copy(), self.considered.features.copy()
        features[:, columns] = considered[:, columns] = 0.0
        exercise = replace(self.exercise, features=features)
        return replace(self, considered=replace(self.considered, features=considered), exercise=exercise)

    @property
    def right_wordings(self) -> list[int]:
        """The number of the wording that was answered; where no candidate has it, of those that stand in for it.

        Where that is all of them, of the nearest alone: else nothing could be learned from the step.
        """
        worded, credit = self.considered.wordings, self.exercise.credit
        if self.sort in worded.texts:
            return [worded.texts.index(self.sort)]
        stand_in = sorted({int(number) for number in worded.of[credit > 0]})
        return stand_in if len(stand_in) < len(worded.texts) else [int(worded.of[credit.argmax()])]

    @property
    def right(self) -> npt.NDArray[np.bool_]:
        """Which candidates have the text that was answered."""
        return np.array([text == self.row.answer for text in self.considered.candidates.texts])


@dataclass(frozen=True)
class _Pick:
    """A step of the sample, and how it is answered."""

    episode: int
    step: int
    turn: int
    without_policy: bool
    weight: float


Answered = tuple[Considered, npt.NDArray[np.float32]]
"""A step with its candidates, and the credit of each."""
Helpers = Callable[[Sequence[Sequence[_Pick]], bool], Iterator[Sequence[Answered]]]
"""Other processes that answer the steps of some episodes, one episode after the other."""


@contextmanager
def helping(episodes: Sequence[Trajectory], jobs: int) -> Iterator[Helpers | None]:
    """So many processes that answer steps of the log, each with a model of its own; None where one is to do it all."""
    if jobs == 1:
        yield None
        return
    log = pickle.dumps(tuple(episodes))
    with worker_pool(jobs) as pool:

        def help_with(parts: Sequence[Sequence[_Pick]], as_new: bool) -> Iterator[Sequence[Answered]]:
            size = max(1, -(-len(parts) // (_SHARES * jobs)))
            shares = [parts[first : first + size] for first in range(0, len(parts), size)]
            for pending in [pool.submit(_answered_in_a_process, log, share, as_new) for share in shares]:
                yield from pending.result()

        yield help_with


def described_steps(
    model: KernelModel,
    seed: int,
    most: int,
    episodes: Collection[int] | None = None,
    *,
    as_new: bool = False,
    helpers: Helpers | None = None,
    progress: Progress = lambda done, of: None,
) -> list[DescribedStep]:
    """A sample of about `most` logged steps, of these episodes only.

    Last steps are in it, all or `most`, whichever is less. `as_new`: as if nobody had done them in their task; last
    steps are no likelier then to be in it than others.
    """
    numbers = range(len(model.log.episodes)) if episodes is None else sorted(episodes)
    picks = _picked(model, random.Random(derive_seed(seed, "exercises")), most, numbers, as_new)
    parts = [[*of_episode] for _, of_episode in groupby(picks, lambda pick: pick.episode)]
    spread, sample = _spread(model), list[DescribedStep]()
    helped = None if helpers is None else helpers(parts, as_new)
    for done, part in enumerate(parts):
        progress(done, len(parts))
        answered = None if helped is None else next(helped)
        for at, (pick, state, row) in enumerate(_replayed(model, part)):
            one = _answered(model, pick, state, row, spread, as_new) if answered is None else answered[at]
            considered, credit = one
            exercise = Exercise(pick.episode, considered.features, credit, max(pick.weight, _LEAST_WEIGHT))
            sample.append(DescribedStep(row, considered, exercise, state.copy(), pick.weight, as_new))
    return sample


def _picked(model: KernelModel, rng: random.Random, most: int, numbers: Sequence[int], as_new: bool) -> list[_Pick]:
    """In the order of the log."""
    share = min(1.0, most / sum(len(model.log.episodes[number]) for number in numbers))
    share_of_last = share if as_new else max(share, min(1.0, most / len(numbers)))
    picks = []
    for number in numbers:
        length = len(model.log.episodes[number])
        for step in range(length):
            chance = share_of_last if step + 1 == length else share
            if rng.random() < chance:
                turn, without_policy = rng.randrange(1 << 20), rng.random() < OTHER_POLICIES
                picks.append(_Pick(number, step, turn, without_policy, share / chance))
    return picks


def _replayed(model: KernelModel, picks: Sequence[_Pick]) -> Iterator[tuple[_Pick, EpisodeState, LoggedStep]]:
    """The steps of one episode, with the state before each."""
    wanted = {pick.step: pick for pick in picks}
    for state, _, row in model.log.replay(picks[0].episode):
        if row.step in wanted:
            yield wanted[row.step], state, row


def _answered(
    model: KernelModel, pick: _Pick, state: EpisodeState, row: LoggedStep, spread: float, as_new: bool
) -> Answered:
    considered = model.consider(
        state, row.action, turn=pick.turn, own=pick.episode, without_policy=pick.without_policy, as_new=as_new
    )
    near = closeness(model.numbers, considered, row.answer, state)
    return considered, near * agreement(model, considered.candidates, row, spread)


def _spread(model: KernelModel) -> float:
    """Rewards that differ by more are not the same outcome."""
    rewards = [row.reward for row in model.log.rows]
    return max(0.02, 0.03 * (max(rewards) - min(rewards)))


def _answered_in_a_process(log: bytes, parts: Sequence[Sequence[_Pick]], as_new: bool) -> list[list[Answered]]:
    model = _model_of(log)
    spread = _spread(model)
    return [[_answered(model, *one, spread, as_new) for one in _replayed(model, part)] for part in parts]


@lru_cache(maxsize=1)
def _model_of(log: bytes) -> KernelModel:
    return KernelModel(pickle.loads(log))
