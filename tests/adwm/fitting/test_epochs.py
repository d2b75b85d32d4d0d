"""Epochs of a log: each episode once, or successful ones more often; streamed ones mixed, and few at a time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numbered_episodes import numbered

from worldline.adwm.episodes import EpisodeData, read_episode
from worldline.adwm.fitting import epochs, log_source
from worldline.adwm.fitting.epochs import HeldEpisodes, StreamedEpisodes
from worldline.adwm.fitting.log_source import LogSource, MemoryLog
from worldline.adwm.fitting.survey import facts_of
from worldline.adwm.model import PRESETS, WorldModel
from worldline.types import Trajectory

LOG = [numbered(n, 2 + n % 4, success=n % 10 == 0) for n in range(400)]


@pytest.fixture(scope="module")
def model() -> WorldModel:
    return WorldModel(PRESETS["small"], facts_of(LOG))


@dataclass
class Watched:
    """A log that counts the steps that were read."""

    log: MemoryLog
    steps: int = 0

    @property
    def sizes(self) -> Sequence[int]:
        return self.log.sizes

    def read(self, block: int, rows: Sequence[int] | None = None) -> Iterator[Trajectory]:
        for episode in self.log.read(block, rows):
            self.steps += len(episode)
            yield episode


def streamed(model: WorldModel, numbers: Sequence[int], source: LogSource | None = None) -> StreamedEpisodes:
    good = np.array([bool(LOG[number].success) for number in numbers])
    return StreamedEpisodes(source or MemoryLog(LOG), model, np.array(numbers), good, [])


def order(episodes: StreamedEpisodes | HeldEpisodes, share: float, seed: int, window: int = 64) -> list[int]:
    return [one.number for one in episodes.epoch(share, window, np.random.default_rng(seed))]


def test_held_episodes_come_as_a_permutation_and_in_windows(model: WorldModel) -> None:
    """Draw by draw what a reader of the docstring would write."""
    data = [read_episode(model, episode, n) for n, episode in enumerate(LOG[:40])]
    drawn = list(HeldEpisodes(data).epoch(0.0, 3, np.random.default_rng(7)))
    rng = np.random.default_rng(7)
    for number, one in zip(rng.permutation(40), drawn, strict=True):
        start = int(rng.integers(0, max(1, len(data[number]) - 3 + 1)))
        assert (one.number, one.action_texts) == (number, data[number].action_texts[start : start + 3])


def test_a_stream_has_every_episode_once_in_an_order_of_the_seed(
    model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "BUFFER", 100)
    monkeypatch.setattr(log_source, "BLOCK", 16)
    numbers = [number for number in range(400) if number % 3]
    stream = streamed(model, numbers)
    first = order(stream, 0.0, seed=1)
    assert sorted(first) == numbers
    assert first == order(stream, 0.0, seed=1)
    assert first != order(stream, 0.0, seed=2)
    apart = np.abs(np.diff(first))
    assert np.mean(apart == 1) < 0.1, "neighbours of the log are parted"
    assert abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 0.3


def test_a_stream_holds_no_more_than_its_buffer_and_a_part_of_a_block(
    model: WorldModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epochs, "BUFFER", 100)
    source = Watched(MemoryLog(LOG))
    given, ahead = 0, []
    for one in streamed(model, range(400), source).epoch(0.0, 64, np.random.default_rng(0)):
        ahead.append(source.steps - given)
        given += len(one)
    assert max(ahead) <= 100 + 5, "and the episode that was read last"
    assert given == sum(map(len, LOG))


@pytest.mark.parametrize("kind", ["held", "streamed"])
def test_rare_successes_come_more_often(model: WorldModel, kind: str) -> None:
    """A tenth of the log succeeds; three tenths of the draws do, if that is wanted, and there are as many draws."""
    data: list[EpisodeData] = [read_episode(model, episode, n) for n, episode in enumerate(LOG)]
    episodes = HeldEpisodes(data) if kind == "held" else streamed(model, range(400))
    counted = Counter(number % 10 == 0 for seed in range(20) for number in order(episodes, 0.3, seed))
    assert counted.total() == 20 * 400
    assert counted[True] / counted.total() == pytest.approx(0.3, abs=0.02)
