"""Several processes write into one folder and one of them is killed, twenty times: nothing is lost or there twice.

Run as `dying_writers.py FOLDER WRITERS`; prints how often the victim was caught before its end.
"""

import multiprocessing
import random
import signal
import sys
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
    assert all(process.exitcode == 0 for k, process in enumerate(processes) if k != victim), processes
    there = list(store.read(folder))  # every shard is readable
    assert_whole(there)
    names = [episode.id for episode in there]
    assert len(names) == len(set(names)), names
    assert {*names} >= {f"w{k}-{number}" for k in range(writers) if k != victim for number in range(6)}, names
    write_rows(folder, f"w{victim}", 6)
    after = list(store.read(folder))
    assert after[: len(there)] == there
    assert sorted(one.id for one in after) == sorted(f"w{k}-{number}" for k in range(writers) for number in range(6))
    return processes[victim].exitcode == -signal.SIGKILL


if __name__ == "__main__":
    files._sync = lambda path: None  # a dying process loses nothing that it wrote
    chance = random.Random(int(sys.argv[2]))
    write_rows(Path(sys.argv[1], "first"), "w", 1)  # pyarrow imports more at its first table: once, before the forks
    print(sum(caught(Path(sys.argv[1], str(trial)), int(sys.argv[2]), chance) for trial in range(20)))
