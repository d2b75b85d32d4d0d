"""Whole or not at all: killed writers, several writers, failing disks."""

import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import faults
from store.dying_writers import assert_whole, times_caught, wait_for, write_long_rows
from worldline import store
from worldline.types import InputError, Trajectory, WorldlineError

SMALL = multiprocessing.get_context("forkserver")


@pytest.fixture(scope="module", autouse=True)
def _small_processes() -> Iterator[None]:
    """Writers are forks of a process that has imported the store alone: a fork of this one takes far longer."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        SMALL.set_forkserver_preload(["__main__", "store.dying_writers", "pandas"])  # pyarrow would import it each time
        forkserver.ensure_running()
        yield


def start_writer(folder: Path, name: str, episodes: int, when: str = "") -> ForkServerProcess:
    process = SMALL.Process(target=write_long_rows, args=(folder, name, episodes, when), daemon=True)
    process.start()
    return process


def ended(process: ForkServerProcess) -> int | None:
    """The exit code of a process; None if it never ends."""
    process.join(timeout=60)
    return process.exitcode


@pytest.mark.parametrize("trial", range(3))
def test_after_kill_9_every_shard_is_readable_and_no_episode_is_cut(tmp_path: Path, trial: int) -> None:
    process = start_writer(tmp_path, "a", 0)
    wait_for(lambda: store.shards(tmp_path))
    time.sleep(random.uniform(0, 0.3))
    process.kill()
    assert ended(process) == -signal.SIGKILL
    episodes = list(store.read(tmp_path))
    assert_whole(episodes)
    # Shards of three: what is there is the beginning of what was written, without a gap.
    assert [episode.seed for episode in episodes] == list(range(len(episodes)))
    assert len(episodes) % 3 == 0


def test_two_processes_at_once_give_the_union(tmp_path: Path) -> None:
    processes = [start_writer(tmp_path, name, 150) for name in "ab"]
    assert [ended(process) for process in processes] == [0, 0]
    episodes = list(store.read(tmp_path))
    assert_whole(episodes)
    assert sorted(episode.id for episode in episodes) == sorted(f"{n}-{k}" for n in "ab" for k in range(150))
    store.check_unique(tmp_path)


def test_what_a_killed_writer_left_is_ignored_and_then_removed(
    tmp_path: Path, episode: Callable[..., Trajectory]
) -> None:
    assert ended(start_writer(tmp_path, "a", 0, "die in the middle of a shard")) == -signal.SIGKILL
    (left,) = tmp_path.glob("*.tmp")
    assert left.stat().st_size > 0
    assert store.ids(tmp_path) == set()
    with store.StoreWriter(tmp_path) as writer:
        writer.append(episode(1))
    assert not left.exists()
    assert store.ids(tmp_path) == {"e1"}


def test_what_a_living_writer_is_at_stays(tmp_path: Path) -> None:
    process = start_writer(tmp_path, "a", 0, "die in the middle of a shard")
    assert ended(process) == -signal.SIGKILL
    (left,) = tmp_path.glob("*.tmp")
    mine = left.rename(left.with_name(left.name.replace(f"@{process.pid}@", f"@{os.getpid()}@")))
    store.StoreWriter(tmp_path)
    assert mine.exists()


def test_no_other_file_is_ever_visible_as_a_shard(tmp_path: Path) -> None:
    assert ended(start_writer(tmp_path, "a", 0, "die in the middle of a shard")) == -signal.SIGKILL
    assert not list(tmp_path.glob("*.parquet"))
    assert not list(tmp_path.glob("**/*.parquet"))


def test_a_shard_is_written_by_count_by_time_and_by_size(tmp_path: Path, episode: Callable[..., Trajectory]) -> None:
    by_count = store.StoreWriter(tmp_path / "count", flush_every=2)
    for number in range(5):
        by_count.append(episode(number))
    assert (by_count.written, store.count(tmp_path / "count")) == (4, 4)
    by_count.flush()
    assert (by_count.written, store.count(tmp_path / "count")) == (5, 5)

    by_time = store.StoreWriter(tmp_path / "time", flush_seconds=0.0)
    by_time.append(episode(1))
    assert store.count(tmp_path / "time") == 1

    by_size = store.StoreWriter(tmp_path / "size")
    by_size.append(episode(0))
    assert not store.shards(tmp_path / "size")
    by_size.append(episode(1, steps=({"observation": "x" * (70 << 20), "action": ""},)))
    assert store.count(tmp_path / "size") == 2


def test_episodes_done_before_an_exception_are_kept(tmp_path: Path, episode: Callable[..., Trajectory]) -> None:
    def run() -> None:
        with store.StoreWriter(tmp_path) as writer:
            writer.append(episode(1))
            raise RuntimeError("policy broke")

    with pytest.raises(RuntimeError, match="policy broke"):
        run()
    assert store.ids(tmp_path) == {"e1"}


def test_a_failing_disk_is_one_clear_line_and_loses_nothing(
    tmp_path: Path, episode: Callable[..., Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = store.StoreWriter(tmp_path)
    writer.append(episode(4))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(WorldlineError, match=r"\.parquet: cannot be written: No space left"):
            writer.flush()
    assert list(tmp_path.iterdir()) == []
    writer.flush()
    assert list(store.read(tmp_path)) == [episode(4)]


def test_a_file_in_the_place_of_the_folder_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("not a folder")
    with pytest.raises(InputError, match="log: is a file: name a folder"):
        store.StoreWriter(tmp_path / "log")


def test_shards_say_their_version_in_the_file_and_in_the_column(
    tmp_path: Path, episode: Callable[..., Trajectory]
) -> None:
    with store.StoreWriter(tmp_path) as writer:
        writer.append(episode(2))
    (shard,) = store.shards(tmp_path)
    assert pq.read_schema(shard).metadata[b"worldline.schema_version"] == b"1"
    assert pq.read_table(shard)["schema_version"].to_pylist() == [1]


def test_an_episode_that_is_there_is_refused_by_name_whoever_wrote_it(
    tmp_path: Path, episode: Callable[..., Trajectory]
) -> None:
    first, second = store.StoreWriter(tmp_path), store.StoreWriter(tmp_path)
    first.append(episode(1))
    second.append(episode(2))
    second.append(episode(1, goal="another"))
    assert first.held(["e1", "e2"]) == {"e1"}
    first.flush()
    assert second.held(["e1", "e2", "e3"]) == {"e1", "e2"}
    with pytest.raises(InputError, match=rf"{tmp_path}: holds episode 'e1' already: --resume leaves out"):
        second.flush()
    assert list(store.read(tmp_path)) == [episode(1)]  # the batch is refused whole
    (shard,) = store.shards(tmp_path)
    shard.unlink()
    second.flush()  # what was deleted is there no longer
    assert store.ids(tmp_path) == {"e1", "e2"}


def test_an_episode_that_is_given_twice_is_refused_at_once(tmp_path: Path, episode: Callable[..., Trajectory]) -> None:
    writer = store.StoreWriter(tmp_path)
    writer.append(episode(1))
    with pytest.raises(InputError, match="episode 'e1' is given twice"):
        writer.append(episode(1))
    writer.append(episode(2, id="\udc80"))
    with pytest.raises(InputError, match="episode '\ufffd' is given twice"):  # both would be stored under one name
        writer.append(episode(2, id="\udc81"))
    writer.flush()
    assert store.ids(tmp_path) == {"e1", "\ufffd"}
    assert writer.held(["\udc82"]) == {"\udc82"}


def test_a_broken_shard_of_somebody_else_costs_no_new_episode(
    tmp_path: Path, episode: Callable[..., Trajectory]
) -> None:
    (tmp_path / "broken.parquet").write_text("PAR1")
    with store.StoreWriter(tmp_path) as writer:
        writer.append(episode(1))
    (tmp_path / "broken.parquet").unlink()
    assert store.ids(tmp_path) == {"e1"}


def test_an_exception_under_way_is_not_lost_when_the_last_flush_fails(
    tmp_path: Path, episode: Callable[..., Trajectory]
) -> None:
    with store.StoreWriter(tmp_path) as writer:
        writer.append(episode(1))

    def run() -> None:
        with store.StoreWriter(tmp_path) as writer:
            writer.append(episode(1))
            raise RuntimeError("policy broke")

    with pytest.raises(RuntimeError, match="policy broke") as caught:
        run()
    assert "1 finished episodes are lost" in caught.value.__notes__[0]
    assert "holds episode 'e1' already" in caught.value.__notes__[0]


def test_a_full_disk_is_one_cause_and_named_once(
    tmp_path: Path, episode: Callable[..., Trajectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    def run() -> None:
        with store.StoreWriter(tmp_path, flush_every=1) as writer:
            writer.append(episode(1))

    with pytest.raises(WorldlineError, match=r"\.parquet: cannot be written: No space left") as caught:
        run()
    assert caught.value.__notes__ == ["1 finished episodes are lost"]


@pytest.mark.parametrize("how", ["full", "killed"])
def test_whichever_call_fails_an_episode_is_there_once_or_not_at_all(
    tmp_path: Path, episode: Callable[..., Trajectory], how: faults.How
) -> None:
    def work(folder: Path) -> None:
        with store.StoreWriter(folder, flush_every=2) as writer:
            there = writer.held(f"e{number}" for number in range(4))
            for number in range(4):
                if f"e{number}" not in there:
                    writer.append(episode(number))

    count = faults.points(lambda: work(tmp_path / "whole"))
    assert count == 10  # two shards: lock, write, sync, rename, sync of the folder
    for number in range(count):
        folder = tmp_path / str(number)
        assert faults.broken(lambda folder=folder: work(folder), number, how) == (
            70 if how == "full" else faults.KILLED
        )
        there = list(store.read(folder)) if store.shards(folder) else []
        assert all(trajectory == episode(trajectory.seed) for trajectory in there)
        work(folder)
        assert sorted(store.read(folder), key=lambda one: one.seed) == [episode(number) for number in range(4)]
        store.check_unique(folder)
        assert {*folder.iterdir()} <= {*store.shards(folder), folder / ".lock"}  # nothing else is left behind


@pytest.mark.parametrize("writers", [2, 4, 8])
def test_of_several_writers_one_dies_and_nothing_is_lost_or_there_twice(tmp_path: Path, writers: int) -> None:
    with ProcessPoolExecutor(1, mp_context=SMALL) as pool:
        assert pool.submit(times_caught, tmp_path, writers).result(timeout=300) >= 3  # in the middle


def test_two_writers_of_the_same_episodes_leave_each_once(tmp_path: Path) -> None:
    processes = [start_writer(tmp_path, "a", 60) for _ in range(2)]
    codes = sorted(ended(process) for process in processes)
    assert codes[1] == 1  # one of them is refused
    store.check_unique(tmp_path)
    assert_whole(list(store.read(tmp_path)))
