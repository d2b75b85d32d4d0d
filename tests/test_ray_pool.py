"""Ray against the local engine: the same episodes, estimates and errors; and what a killed process costs."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from collect_process import start_collect
from worldline import store
from worldline.collect import CollectConfig, collect
from worldline.evaluate.evaluation import evaluate
from worldline.evaluate.settings import EvaluateConfig
from worldline.evaluate.spread import parts
from worldline.ray_pool import check_engine, ray_pool, remove_leftovers
from worldline.types import InputError, Trajectory, Turn, WorldlineError
from worldline.worker_pool import run_all, worker_pool

pytest.importorskip("ray", reason="Ray is not installed: pip install 'worldline[ray]'")
TESTS = Path(__file__).parent
RUN = ("--episodes", "1200", "--batch-size", "32")


@pytest.fixture(scope="module")
def own_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One Ray for these tests; when it is gone, so is all that it wrote."""
    home, before = tmp_path_factory.mktemp("home"), _folders()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.chdir(TESTS)  # where its workers find the modules of tests
        with ray_pool("ray", 2):
            yield
    assert not list(home.rglob("*")) and not _folders() - before


def _folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("worldline-ray-*"))


def config(out: Path | None, **settings: Any) -> CollectConfig:
    defaults = {"env": "household", "options": {"level": "tiny"}, "policy": "random", "max_steps": 20, "epsilon": 0.1}
    return CollectConfig.model_validate({**defaults, "episodes": 60, "batch_size": 5, "out": out, **settings})


def content(folder: Path) -> dict[str, Trajectory]:
    store.check_unique(folder)
    return {trajectory.id: trajectory for trajectory in store.read(folder)}


def test_episodes_are_those_of_the_local_engine(own_ray: None, tmp_path: Path) -> None:
    here = collect(config(tmp_path / "here"))
    there = collect(config(tmp_path / "there", engine="ray", workers=2, episodes=40))
    assert len(content(tmp_path / "there")) == there.played == 40
    there = collect(config(tmp_path / "there", engine="ray", workers=3, resume=True))
    assert content(tmp_path / "there") == content(tmp_path / "here")
    assert len(store.shards(tmp_path / "there")) > len(store.shards(tmp_path / "here")), "many writers"
    alike = [name for name in here.summary() if name not in ("seconds", "steps_per_second", "out")]
    assert {name: there.summary()[name] for name in alike} == {name: here.summary()[name] for name in alike}
    unstored = collect(config(None, engine="ray", workers=2))
    assert unstored.summary()["return"] == here.summary()["return"] and unstored.played_steps == here.played_steps


def crash(turn: Turn) -> str:
    raise RuntimeError("out\nof memory")


def test_errors_are_those_of_the_local_engine(own_ray: None, tmp_path: Path) -> None:
    with pytest.raises(
        WorldlineError, match="'test_ray_pool:crash' failed in the middle, at task .*: RuntimeError: out of mem"
    ) as e:
        collect(config(tmp_path, policy="test_ray_pool:crash", engine="ray"))
    assert e.value.exit_code == 1
    with pytest.raises(InputError, match="hf:no/where/at/all: no such folder"):
        collect(config(tmp_path, policy="hf:no/where/at/all", engine="ray"))
    with pytest.raises(InputError, match="unknown policy 'rand'"):
        collect(config(tmp_path, policy="rand", engine="ray"))
    with worker_pool(2, "ray") as pool:
        run_all(pool, {"a": partial(int, "1")})
        with pytest.raises(ValueError, match="invalid literal"):
            run_all(pool, {"b": partial(int, "x")})
    with pytest.raises(InputError, match="--engine spark: give local, ray or ray://HOST:PORT"):
        check_engine("spark")


def test_estimates_are_those_of_the_local_engine(own_ray: None, start: Path, tmp_path: Path) -> None:
    model = f"hf:{start}"
    played = {"env": "counting:CountingWorld", "options": {}, "policy": model, "mode": "choose", "device": "cpu"}
    collect(config(tmp_path / "log", **played, episodes=40))
    settings = {"log": [tmp_path / "log"], "policy": [f"a={model}", "b=random"], "mode": "choose", "device": "cpu"}
    how = {"estimators": ["is", "wis", "dr"], "epsilon": [0, 0.4], "env": "counting:CountingWorld", "bootstrap": 100}
    evaluation_config = EvaluateConfig.model_validate({**settings, **how})
    there = evaluate(evaluation_config.model_copy(update={"engine": "ray", "cache": tmp_path / "cache"}))
    kept = {path.name for path in (tmp_path / "cache").iterdir()}
    here = evaluate(evaluation_config.model_copy(update={"cache": tmp_path / "other"}))
    assert there.as_dict()["policies"] == here.as_dict()["policies"]
    assert kept == {path.name for path in (tmp_path / "other").iterdir()} and kept
    with_model = evaluation_config.model_copy(update={"world_model": tmp_path})
    assert [part.epsilon for part in parts(with_model, tmp_path)] == [(0,), (0.4,)]


def kill(process: subprocess.Popen[bytes], out: Path, chosen: Callable[[str], bool]) -> None:
    """As soon as something is written, SIGKILL to the processes under this one whose command line is chosen."""
    while len(store.shards(out)) < 2:
        assert process.poll() is None
        time.sleep(0.02)
    victims = [child for child in psutil.Process(process.pid).children(recursive=True) if chosen(_line(child))]
    assert victims, "there is somebody to kill"
    for victim in victims:
        os.kill(victim.pid, signal.SIGKILL)
    assert store.count(out) < 1200, "killed in the middle"


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trajectory]:
    out = tmp_path_factory.mktemp("undisturbed")
    assert start_collect(out, *RUN).wait() == 0
    return content(out)


def test_a_killed_workers_shard_is_played_again(tmp_path: Path, undisturbed: dict[str, Trajectory]) -> None:
    process = start_collect(tmp_path, *RUN, "--engine", "ray", "--workers", "2")
    kill(process, tmp_path, lambda line: line.startswith("ray::_call"))
    assert process.wait() == 0
    assert content(tmp_path) == undisturbed


def test_after_a_killed_head_the_run_can_be_resumed(tmp_path: Path, undisturbed: dict[str, Trajectory]) -> None:
    process = start_collect(tmp_path, *RUN, "--engine", "ray", "--workers", "2")
    kill(process, tmp_path, lambda line: "gcs_server" in line.split(" ")[0] or "raylet/raylet" in line.split(" ")[0])
    assert process.wait(120) != 0
    assert 0 < store.count(tmp_path) < 1200
    assert start_collect(tmp_path, *RUN, "--resume").wait() == 0
    assert content(tmp_path) == undisturbed
    remove_leftovers()  # as the next one does that starts
    assert not [path for path in _folders() if f"-{process.pid}-" in path.name]
