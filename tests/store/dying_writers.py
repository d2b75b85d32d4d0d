"""What small processes do that write into one folder and are killed: one after another, and one of several."""

import itertools
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

from worldline import files, store
from worldline.types import Step, Trajectory


def assert_whole(episodes: list[Trajectory]) -> None:
    for episode in episodes:
        assert [step.action for step in episode.steps] == [
            f"{episode.policy} {episode.seed} {k}" for k in range(episode.seed % 9)
        ]


def wait_for(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, "the writer never got there"
        time.sleep(0.01)


def write_long_rows(folder: Path, name: str, episodes: int, when: str) -> None:
    """Writes so many episodes, or without end where that is 0."""
    if when == "die in the middle of a shard":
        os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
    with store.StoreWriter(folder, flush_every=3) as writer:
        for number in itertools.islice(itertools.count(), episodes or None):
            steps = tuple(Step(observation="x" * 500, action=f"{name} {number} {k}") for k in range(number % 9))
            fields = {"id": f"{name}-{number}", "policy": name, "seed": number, "steps": steps}
            writer.append(Trajectory(env="e", task_id="t", **fields))


def write_rows(folder: Path, name: str, episodes: int) -> None:
    """What each of several writers does; one that was killed is run again in the same words."""
    with store.StoreWriter(folder, flush_every=3) as writer:
        there = writer.held(f"{name}-{number}" for number in range(episodes))
        for number in range(episodes):
            if f"{name}-{number}" not in there:
                steps = tuple(Step(observation="x" * 50, action=f"{name} {number} {k}") for k in range(number % 9))
                fields = {"id": f"{name}-{number}", "policy": name, "seed": number, "steps": steps}
                writer.append(Trajectory(env="e", task_id="t", **fields))


def caught(folder: Path, writers: int, chance: random.Random) -> bool:
    """One trial: whether the victim died before its end."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=write_rows, args=(folder, f"w{k}", 6)) for k in range(writers)]
    for process in processes:
        process.start()
    victim = chance.randrange(writers)
    goal = chance.randrange(writers)
    wait_for(lambda: len(store.shards(folder)) >= goal)
    time.sleep(chance.uniform(0, 0.01))
    processes[victim].kill()
    for process in processes:
        process.join()
    codes = [process.exitcode for process in processes]
    assert all(code == 0 for k, code in enumerate(codes) if k != victim), codes
    there = list(store.read(folder))  # every shard is readable
    assert_whole(there)
    names = [episode.id for episode in there]
    assert len(names) == len(set(names)), names
    assert {*names} >= {f"w{k}-{number}" for k in range(writers) if k != victim for number in range(6)}, names
    write_rows(folder, f"w{victim}", 6)
    after = list(store.read(folder))
    assert after[: len(there)] == there
    assert sorted(one.id for one in after) == sorted(f"w{k}-{number}" for k in range(writers) for number in range(6))
    return codes[victim] == -signal.SIGKILL


def times_caught(folder: Path, writers: int) -> int:
    """Twenty trials, in which nothing is lost or there twice: how often the victim died before its end."""
    files._sync = lambda path: None  # a dying process loses nothing that it wrote
    chance = random.Random(writers)
    write_rows(folder / "first", "w", 1)  # what a first table sets up is there before the forks
    return sum(caught(folder / str(trial), writers, chance) for trial in range(20))
