"""Our server under OpenEnv's own client, our client under OpenEnv's own server, and what a dead server costs."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from worldline import store
from worldline.cli import main
from worldline.envs import load
from worldline.envs.worker_process import EpisodeLostError
from worldline.rollout import Rollout, plan
from worldline.types import Decision, Environment, InputError, Trajectory, Turn, World, derive_seed

openenv = pytest.importorskip("openenv", reason="needs the extra 'openenv' (make openenv)")
HERE = Path(__file__).parent
SOURCE = str(HERE.parents[1] / "src")
CORRIDOR = HERE / "openenv_corridor.py"


class Server:
    """A server in a process of its own, which can be killed and started again at the same port."""

    def __init__(self, *command: str, port: int = 0) -> None:
        self.port = port or free_port()
        self._command = [*command, str(self.port)]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        paths = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen([sys.executable, *self._command], env={**os.environ, "PYTHONPATH": paths})

    def wait(self) -> "Server":
        for _ in range(1800):  # importing OpenEnv takes its time
            with socket.socket() as probe:
                probe.settimeout(0.1)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            assert self.process.poll() is None, "the server ended"
            signal.sigtimedwait([], 0.1)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SERVE = ("-m", "worldline", "env", "serve", "household", "--options.level", "tiny", "--port")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[Server, Server]]:
    """Ours with the household in it, and OpenEnv's own with a corridor."""
    both = Server(*SERVE), Server(str(CORRIDOR))
    yield both[0].wait(), both[1].wait()
    for server in both:
        server.kill()


@pytest.fixture
def mortal() -> Iterator[Server]:
    server = Server(str(CORRIDOR)).wait()
    yield server
    server.kill()


class Chance:
    """Draws an admissible action by the turn's seed."""

    name = "chance"

    def act(self, turns: Sequence[Turn]) -> list[Decision]:
        return [self._decide(turn) for turn in turns]

    def _decide(self, turn: Turn) -> Decision:
        admissible = turn.admissible or ()
        action = admissible[derive_seed(turn.seed, "chance") % len(admissible)]
        return Decision(action=action, response=action)


def played(world: World, count: int, **settings: Any) -> list[Trajectory]:
    rollout = Rollout(world, Chance(), **settings)
    episodes = list(rollout.play(plan(world, world.splits()[0], count, seed=1, run="run")))
    assert not rollout.failed
    return sorted(episodes, key=lambda episode: episode.id)


def test_the_official_client_plays_our_environment(servers: tuple[Server, Server]) -> None:
    """Step by step as the environment itself, with tasks by seed, by split and index, and by name."""
    import httpx
    from openenv.core import GenericEnvClient

    world = load("household", options={"level": "tiny"})
    local = world.make()
    task = world.get_task("train", 3)
    text, info = local.reset(seed=3, task=task)
    with GenericEnvClient(base_url=servers[0].url).sync() as client:
        for start in ({"seed": 3}, {"seed": 3, "split": "train", "index": 3}, {"seed": 3, "task": task}):
            result = client.reset(**start)
            assert result.observation["text"] == text and result.observation["goal"] == info["goal"]
            assert result.observation["admissible"] == list(info["admissible"] or ())
            assert result.observation["metadata"]["task_id"] == task
        for count in range(1, world.max_steps + 1):
            action = str((info["admissible"] or ("look",))[count % 5])
            text, reward, terminated, _, info = local.step(action)
            result = client.step({"text": action})
            assert (result.observation["text"], result.reward) == (text, reward)
            assert result.done == (terminated or count == world.max_steps)
            assert client.state()["step_count"] == count
            if result.done:
                break
        assert result.observation["metadata"].get("truncated", False) == (not terminated)
        with pytest.raises(RuntimeError, match="no episode is under way: reset first"):
            client.step({"text": "look"})
    listed = httpx.post(f"{servers[0].url}/household/task", json={"split": "train", "index": 3}).json()
    assert listed["task"] == {"id": task, "split": "train", "index": 3}


def test_episodes_behind_our_server_are_those_of_the_engine(servers: tuple[Server, Server], tmp_path: Path) -> None:
    """`collect` over the wire, twelve episodes at once, against `collect` without it."""
    arguments = ["--policy", "random", "--episodes", "40", "--batch-size", "12", "--seed", "5", "--split", "seen"]
    here, there = tmp_path / "here", tmp_path / "there"
    world = load("household", options={"level": "tiny"})
    options = ["--options.family", world.family, "--options.max-steps", str(world.max_steps)]
    assert main(["collect", f"openenv:{servers[0].url}", *arguments, *options, "--out", str(there)]) == 0
    assert main(["collect", "household", "--options.level", "tiny", *arguments, "--out", str(here)]) == 0

    def content(folder: Path) -> list[Trajectory]:
        episodes = sorted(store.read(folder), key=lambda episode: (episode.seed, episode.task_id))
        # ids begin with the run's name, env is the URL; what has ended has no list of actions over the wire
        return [replace_names(episode) for episode in episodes]

    def replace_names(episode: Trajectory) -> Trajectory:
        return episode.model_copy(update={"id": "", "env": ""})

    assert len(content(here)) == 40 and content(there) == content(here)


def test_our_client_plays_an_official_environment(servers: tuple[Server, Server]) -> None:
    """Against the environment's own class, played without any server."""
    from openenv_corridor import Corridor, CorridorAction, Move

    world = load(f"openenv:{servers[1].url}", options={"won_reward": 1, "max_steps": 12})
    assert isinstance(world, World) and isinstance(world.make(), Environment)
    assert world.splits() == ("all",) and world.num_tasks("all") == 1_000
    for episode in played(world, 20, batch_size=8):
        corridor = Corridor()
        shown = corridor.reset(seed=int(episode.task_id))
        rewards = []
        for step in episode.steps:
            assert step.observation == f"position: {shown.position}\nsign: {shown.sign}"
            assert step.admissible == ("left", "right")
            shown = corridor.step(CorridorAction(move=Move(step.action)))
            rewards.append(shown.reward)
        assert rewards == [step.reward for step in episode.steps]
        assert (episode.terminated, episode.success) == (shown.done, shown.done)


def test_what_the_server_does_not_take_is_an_invalid_action(servers: tuple[Server, Server]) -> None:
    environment = load(f"openenv:{servers[1].url}").make()
    environment.reset(task="1")
    answer, reward, terminated, truncated, info = environment.step("jump")
    assert "one of left, right" in answer and (reward, terminated, truncated) == (0.0, False, False)
    assert info["valid"] is False
    loose = load(f"openenv:{servers[1].url}", options={"action_field": "json"}).make()
    loose.reset(task="1")
    answer, *_, info = loose.step('{"move": "jump"}')
    assert "VALIDATION_ERROR" in answer and info["valid"] is False
    assert loose.step('{"move": "right"}')[0].startswith("position: 1"), "the episode stands where it was"


def test_a_copy_goes_its_own_way(servers: tuple[Server, Server]) -> None:
    environment = load(f"openenv:{servers[1].url}").make()
    environment.reset(task="1")
    environment.step("right")
    copy = environment.clone()
    assert copy.step("right")[0].startswith("position: 2")
    assert environment.step("left")[0].startswith("position: 0")


def test_an_environment_that_raises_costs_its_episode(servers: tuple[Server, Server]) -> None:
    environment = load(f"openenv:{servers[1].url}").make()
    environment.reset(task="999")
    with pytest.raises(EpisodeLostError, match=rf"openenv:{servers[1].url}: the server failed .* the floor gave way"):
        environment.step("left")


def test_a_server_without_room_says_what_to_do(servers: tuple[Server, Server]) -> None:
    world = load(f"openenv:{servers[1].url}")
    with pytest.raises(InputError, match="no session left .* play fewer episodes at once with --batch-size"):
        played(world, 20, batch_size=20)


def test_a_server_that_dies_in_an_episode_costs_that_episode_and_is_named(mortal: Server) -> None:
    """It is killed under four running episodes and comes back: they are played again, as if nothing had been."""
    undisturbed = played(load(f"openenv:{mortal.url}", options={"max_steps": 12}), 12, batch_size=4)

    class Killer(Chance):
        calls = 0

        def act(self, turns: Sequence[Turn]) -> list[Decision]:
            self.calls += 1
            if self.calls == 3:
                mortal.kill()
                mortal.start()
            return super().act(turns)

    world = load(f"openenv:{mortal.url}", options={"max_steps": 12})
    rollout = Rollout(world, Killer(), batch_size=4)
    episodes = sorted(rollout.play(plan(world, "all", 12, seed=1, run="run")), key=lambda episode: episode.id)
    assert 1 <= rollout.retried <= 4 and not rollout.failed
    assert re.search(rf"openenv:{mortal.url}: the (server failed in|connection to)", rollout.mishap), rollout.mishap
    assert [replace_policy(episode) for episode in episodes] == [replace_policy(episode) for episode in undisturbed]


def replace_policy(episode: Trajectory) -> Trajectory:
    return episode.model_copy(update={"policy": ""})


def test_a_step_never_reaches_an_environment_that_nobody_reset(mortal: Server) -> None:
    """The client would connect again and step in a fresh environment; that answer is no part of the episode."""
    environment = load(f"openenv:{mortal.url}").make()
    environment.reset(task="2")
    environment.step("right")
    mortal.kill()
    mortal.start()
    mortal.wait()
    with pytest.raises(EpisodeLostError, match="server"):
        environment.step("right")
    with pytest.raises(EpisodeLostError, match="no episode is under way: reset first"):
        environment.step("right")
    assert environment.reset(task="2")[0].startswith("position: 0")


def test_a_server_that_stays_away_ends_the_run_with_one_line(
    mortal: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = f"openenv:{mortal.url}"
    arguments = ["collect", world, "--policy", "random", "--out", str(tmp_path), "--options.patience", "0"]
    assert main([*arguments, "--episodes", "8", "--batch-size", "4"]) == 0
    mortal.kill()
    assert main([*arguments, "--episodes", "30", "--batch-size", "4", "--resume"]) == 2
    assert re.search(rf"{world}: /schema could not be read: .*", capsys.readouterr().err)
    mortal.start()
    mortal.wait()
    environment = load(world, options={"patience": 0}).make()
    mortal.kill()
    with pytest.raises(InputError, match=r"no server could be reached there for 0 s .* --resume goes on"):
        environment.reset(task="1")
    assert len(store.ids(tmp_path)) == 8


def test_an_environment_from_the_official_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """The maze of github.com/huggingface/OpenEnv, where $OPENENV_ENVS is its folder `envs`."""
    folder = os.environ.get("OPENENV_ENVS")
    if not folder:
        pytest.skip("set OPENENV_ENVS to the folder 'envs' of a checkout of huggingface/OpenEnv")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))
    server = Server("-m", "uvicorn", "maze_env.server.app:app", "--log-level", "warning", "--port")
    try:
        server.wait()
        world = load(f"openenv:{server.url}", options={"won_reward": 10, "max_steps": 40})
        episodes = played(world, 5, batch_size=1)
        assert all(step.admissible and set(step.admissible) <= set("0123") for e in episodes for step in e.steps)
    finally:
        server.kill()
