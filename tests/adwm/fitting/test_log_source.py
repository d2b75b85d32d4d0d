"""A log in blocks: the same episodes from memory and from shards, and chosen ones as a list gives them."""

from pathlib import Path

import numpy as np
import pytest
from numbered_episodes import numbered

from worldline import store
from worldline.adwm.fitting import log_source
from worldline.adwm.fitting.log_source import FolderLog, LogSource, MemoryLog, chosen, episodes_of

EPISODES = [numbered(n, 1 + n % 4) for n in range(23)]


@pytest.fixture(params=["memory", "folder"])
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogSource:
    monkeypatch.setattr(log_source, "BLOCK", 5)
    if request.param == "memory":
        return MemoryLog(EPISODES)
    with store.StoreWriter(tmp_path / "a", flush_every=7) as writer:
        for episode in EPISODES[:17]:
            writer.append(episode)
    store.export_parquet(EPISODES[17:], tmp_path / "b.parquet")
    return FolderLog.of([tmp_path / "a", tmp_path / "b.parquet"])


def test_blocks_hold_the_log_in_its_order(source: LogSource) -> None:
    assert len(source.sizes) > 3
    assert [len(list(source.read(block))) for block in range(len(source.sizes))] == list(source.sizes)
    assert list(episodes_of(source)) == EPISODES


def test_chosen_episodes_are_those_of_a_list(source: LogSource) -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 9, 23):
        numbers = np.sort(rng.choice(23, count, replace=False))
        assert chosen(source, numbers) == [EPISODES[number] for number in numbers]
