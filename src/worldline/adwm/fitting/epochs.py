"""The episodes that a world model trains on, epoch by epoch: held in memory, or streamed from a log that is too large.

An epoch has as many episodes as there are, and successful ones more often where they are rare. In memory, they come in
the order of a random permutation. Streamed, blocks come in a random order and their episodes pass through a buffer from
which the next one is drawn: an order that depends on the seed and on nothing else, and never more than the buffer and a
block in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from worldline.adwm.episodes import EpisodeData, read_episode
from worldline.adwm.fitting.log_source import LogSource, Numbers
from worldline.adwm.model import WorldModel

Flags = npt.NDArray[np.bool_]
BUFFER = 50_000
"""Steps that wait in the buffer of a stream."""


class TrainingEpisodes(Protocol):
    """What a world model is trained on."""

    def epoch(self, success_share: float, window: int, rng: np.random.Generator) -> Iterator[EpisodeData]:
        """As many episodes as there are, at least this share of them successful, each cut to a random window."""
        ...

    def sample(self) -> Sequence[EpisodeData]:
        """Some that fit into memory, to measure the loss on where nothing is held out."""
        ...


@dataclass(frozen=True)
class HeldEpisodes:
    """Episodes in memory."""

    data: Sequence[EpisodeData]

    def epoch(self, success_share: float, window: int, rng: np.random.Generator) -> Iterator[EpisodeData]:
        good = np.array([one.success == 1 or float(one.rewards.sum()) > 0 for one in self.data])
        chances = _chances(good, success_share)
        count = len(self.data)
        order = rng.permutation(count) if chances is None else rng.choice(count, count, p=chances)
        return (_cut(self.data[at], window, rng) for at in order)

    def sample(self) -> Sequence[EpisodeData]:
        return self.data


@dataclass(frozen=True)
class StreamedEpisodes:
    """Episodes of a log that is read anew in every epoch."""

    source: LogSource
    model: WorldModel
    """Whose tokens they are read as."""
    numbers: Numbers
    """Those of the log that are trained on."""
    good: Flags
    """Which of these are successful."""
    held: Sequence[EpisodeData]
    """Some of these."""

    def epoch(self, success_share: float, window: int, rng: np.random.Generator) -> Iterator[EpisodeData]:
        chances, count = _chances(self.good, success_share), len(self.numbers)
        times = np.zeros(sum(self.source.sizes), np.int64)
        times[self.numbers] = 1 if chances is None else rng.multinomial(count, chances)
        waiting: list[EpisodeData] = []
        steps = 0
        for one in self._read(times, window, rng):
            waiting.append(one)
            steps += len(one)
            while steps > BUFFER:
                drawn = _taken(waiting, rng)
                steps -= len(drawn)
                yield drawn
        while waiting:
            yield _taken(waiting, rng)

    def _read(self, times: Numbers, window: int, rng: np.random.Generator) -> Iterator[EpisodeData]:
        """Each episode so many times, blocks in a random order."""
        firsts = np.concatenate([[0], np.cumsum(self.source.sizes)])
        for block in rng.permutation(len(self.source.sizes)).tolist():
            wanted = times[firsts[block] : firsts[block + 1]]
            rows = np.flatnonzero(wanted)
            for row, episode in zip(rows.tolist(), self.source.read(block, rows.tolist()), strict=True):
                data = read_episode(self.model, episode, int(firsts[block]) + row)
                yield from (_cut(data, window, rng) for _ in range(wanted[row]))

    def sample(self) -> Sequence[EpisodeData]:
        return self.held


def _chances(good: Flags, share: float) -> npt.NDArray[np.float64] | None:
    """The probability of drawing each episode; None: all are equal."""
    wins, rest = int(good.sum()), int((~good).sum())
    lift = share * rest / ((1 - share) * wins) if wins and rest else 1.0
    weights = np.where(good, max(1.0, lift), 1.0)
    chances: npt.NDArray[np.float64] = weights / weights.sum()
    return None if np.allclose(chances, chances[0]) else chances


def _cut(one: EpisodeData, window: int, rng: np.random.Generator) -> EpisodeData:
    return one.window(int(rng.integers(0, max(1, len(one) - window + 1))), window)


def _taken(waiting: list[EpisodeData], rng: np.random.Generator) -> EpisodeData:
    """One of those that wait, drawn at random; the last takes its place."""
    at = int(rng.integers(len(waiting)))
    waiting[at], waiting[-1] = waiting[-1], waiting[at]
    return waiting.pop()
