"""Worker processes: the same episodes as at home, and what a crash, a hang or a broken environment costs."""

import os
import random
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from worldline.envs import load
from worldline.envs.worker_process import EpisodeLostError, Recipe
from worldline.envs.workers import WorkerWorld
from worldline.rollout import Rollout, plan
from worldline.types import Decision, Environment, InputError, LazyActions, Turn, World, WorldlineError

SOURCE = '''
import os, time
from worldline.types import InputError, LazyActions

class Ladder:
    """'up' climbs; the words crash, hang, raise, exit and bad do what they say."""

    tasks = tuple(str(n) for n in range(20))
    max_steps = 8

    def __init__(self, log=None):
        self.log = log

    def reset(self, *, seed=None, task=None):
        self.task, self.rungs = task, 0
        print("noise on stdout")
        return self.seen(), {"task_id": task, "admissible": LazyActions(lambda: ["up", f"at {self.rungs}"])}

    def step(self, action):
        if action == "crash":
            os._exit(3)
        if action == "hang":
            time.sleep(60)
        if action == "raise":
            raise RuntimeError("out of rungs")
        if action == "exit":
            raise SystemExit(3)
        if action == "bad":
            raise InputError("no such ladder")
        self.rungs += action == "up"
        won = self.rungs == 3
        return self.seen(), float(won), won, False, {"won": won, "admissible": ["up", "crash"]}

    def seen(self):
        return f"{self.task}: rung {self.rungs} in {os.getpid() if self.log else 'a process'}"
'''


class Dice:
    """Takes any admissible action."""

    name = "dice"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        drawn = [random.Random(turn.seed).choice(list(turn.admissible or ())) for turn in turns]
        return [Decision(action, action) for action in drawn]


@pytest.fixture(scope="module", autouse=True)
def _module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder, before = tmp_path_factory.mktemp("user"), Path.cwd()
    (folder / "ladders.py").write_text(SOURCE)
    os.chdir(folder)
    yield
    os.chdir(before)


@pytest.fixture(scope="module")
def world() -> Iterator[WorkerWorld]:
    made = WorkerWorld(Recipe(load, "ladders:Ladder"), workers=1, timeout=3.0)
    yield made
    made.close()


def climbing(world: World, task: str, rungs: int) -> Environment:
    environment = world.make()
    environment.reset(task=task)
    for _ in range(rungs):
        environment.step("up")
    return environment


def test_it_looks_like_the_world_at_home(world: WorkerWorld) -> None:
    home = load("ladders:Ladder")
    assert isinstance(world, World)
    assert (world.name, world.max_steps, world.splits()) == (home.name, home.max_steps, home.splits())
    here, there = home.make(), world.make()
    assert isinstance(there, Environment)
    assert here.reset(task="4")[0] == there.reset(task="4")[0]
    for _ in range(3):
        ours, theirs = here.step("up"), there.step("up")
        assert ours[:4] == theirs[:4]
        assert {**ours[4], "admissible": tuple(ours[4]["admissible"] or ())} == theirs[4]


def test_lists_stay_lazy_and_are_good_until_the_next_step(world: WorkerWorld) -> None:
    environment = world.make()
    _, info = environment.reset(task="1")
    late = environment.reset(task="1")[1]["admissible"]
    assert isinstance(info["admissible"], LazyActions)
    assert list(info["admissible"]) == ["up", "at 0"]
    environment.step("up")
    with pytest.raises(WorldlineError, match="after a later step"):
        list(late or ())


@pytest.mark.parametrize(("fault", "line"), [("crash", r"died \(exit code 3\)"), ("hang", "no answer within 3 s")])
def test_a_crash_or_a_hang_costs_one_episode(world: WorkerWorld, fault: str, line: str) -> None:
    before = world.replaced
    others = [climbing(world, str(task), rungs=task % 3) for task in range(6)]
    victim = climbing(world, "9", rungs=1)
    copy = victim.clone()
    with pytest.raises(EpisodeLostError, match=line):
        victim.step(fault)
    assert world.replaced == before + 1
    for task, other in enumerate(others):
        assert other.step("up")[0] == f"{task}: rung {task % 3 + 1} in a process"
    assert copy.step("up")[0] == "9: rung 2 in a process"


def test_of_many_under_way_only_the_culprit_is_lost(world: WorkerWorld) -> None:
    episodes = [climbing(world, str(task), rungs=0) for task in range(5)]
    actions = ["up", "up", "crash", "up", "up"]
    for episode, action in zip(episodes, actions, strict=True):
        episode.begin(action)  # type: ignore[attr-defined]  # what only a worker's episode has
    outcomes = []
    for task in (4, 3, 2, 1, 0):
        try:
            outcomes.append(episodes[task].step(actions[task])[0])
        except EpisodeLostError:
            outcomes.append("lost")
    assert outcomes == [f"{task}: rung 1 in a process" if task != 2 else "lost" for task in (4, 3, 2, 1, 0)]


def test_a_killed_process_is_replaced() -> None:
    world = WorkerWorld(Recipe(load, "ladders:Ladder", options={"log": True}), workers=1, timeout=5.0)
    victim = climbing(world, "0", 1)
    pid = int(victim.step("stay")[0].split()[-1])
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(EpisodeLostError, match="exit code -9"):
        victim.step("up")
    assert climbing(world, "1", 1).step("up")[0].startswith("1: rung 2")
    world.close()


def test_what_the_environment_raises_arrives_as_what_it_is(world: WorkerWorld) -> None:
    before = world.replaced
    with pytest.raises(
        EpisodeLostError, match=r"the environment raised RuntimeError: out of rungs \(ladders.py, line \d+\)"
    ):
        climbing(world, "0", 0).step("raise")
    with pytest.raises(EpisodeLostError, match="the environment raised SystemExit: 3"):
        climbing(world, "0", 0).step("exit")
    with pytest.raises(InputError, match="no such ladder"):
        climbing(world, "0", 0).step("bad")
    assert world.replaced == before


def test_a_rollout_over_workers_is_the_rollout_at_home() -> None:
    home = load("searchqa", options={"entities": 60})
    away = load("searchqa", options={"entities": 60}, workers=2)
    played = [
        list(Rollout(world, Dice(), batch_size=8).play(plan(world, "train", 30, seed=1, run="r")))
        for world in (home, away)
    ]
    assert sorted(played[0], key=lambda t: t.id) == sorted(played[1], key=lambda t: t.id)


def test_a_rollout_outlives_crashing_episodes(world: WorkerWorld) -> None:
    rollout = Rollout(world, Dice(), batch_size=4, retries=1)
    played = list(rollout.play(plan(world, "all", 4, seed=0, run="r")))
    assert len(played) + len(rollout.failed) == 4
    assert rollout.retried > 0
    assert all("died" in line for line in rollout.failed)


def test_a_world_that_does_not_load_is_said_once_and_early() -> None:
    with pytest.raises(InputError, match="unknown environment"):
        load("hosehold", workers=2)


def test_the_same_processes_host_one_world_after_the_other() -> None:
    """A process that died between two worlds is begun anew; what a world counts in its processes can be read."""
    ladder, logged = Recipe(load, "ladders:Ladder"), Recipe(load, "ladders:Ladder", options={"log": "yes"})
    world = WorkerWorld(ladder, workers=2, timeout=3.0)
    first = world.make()
    assert first.reset(task="4")[0] == "4: rung 0 in a process"
    world.host(logged, logged.world())
    second = world.make()
    process = int(second.reset(task="5")[0].rpartition(" ")[2])
    assert world.attributes("name") == ["ladders:Ladder"] * 2
    os.kill(process, signal.SIGKILL)
    world.host(ladder, ladder.world())
    assert world.make().reset(task="6")[0] == "6: rung 0 in a process"
    world.close()
