"""An agent that is trained in the world model of a log alone; the real world, which it never met, is the judge."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from counting_recipe import RECIPE
from kernel_fits import fewer_updates

from counting import CountingWorld
from worldline import policies
from worldline.adwm.ensemble import Ensemble
from worldline.kernel.fitting import fit_kernel
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.policies import PolicyConfig
from worldline.rollout import Rollout, plan
from worldline.types import InputError, Trajectory, WorldlineError


def play(model: Path, split: str, episodes: int, seed: int, temperature: float = 1.0) -> list[Trajectory]:
    world = CountingWorld()
    policy = policies.load(f"hf:{model}", world, PolicyConfig(max_new_tokens=4, device="cpu", temperature=temperature))
    return list(Rollout(world, policy, max_steps=3).play(plan(world, split, episodes, seed=seed, run="real")))


def real_success(model: Path) -> float:
    played = play(model, "test", 96, seed=7, temperature=0.4)
    return sum(bool(episode.success) for episode in played) / len(played)


@pytest.fixture(scope="module")
def world_model(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of what the start policy did in the real world."""
    folder = tmp_path_factory.mktemp("imagined") / "wm"
    with fewer_updates():
        model, _ = fit_kernel(play(start, "train", 150, seed=1), seed=0, steps=300)
    Ensemble((), model).save(folder)
    return folder


def recipe(start: Path, world_model: Path, out: Path, **changes: Any) -> TrainConfig:
    given = {**RECIPE, "env": f"imagined:{world_model}", "options": {}, "model": str(start), "out": out}
    return TrainConfig.model_validate(given | changes)


def test_real_success_rises_without_a_real_episode(start: Path, world_model: Path, tmp_path: Path) -> None:
    changes = {"updates": 8, "groups": 6, "group_size": 8, "algo": "gigpo"}
    trained = train(recipe(start, world_model, tmp_path / "run", **changes))
    assert real_success(trained.checkpoint) > real_success(start) + 0.15
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(0 <= line["halted"] <= 0.5 for line in lines[1:])


def test_a_policy_that_leaves_the_log_stops_the_run(start: Path, world_model: Path, tmp_path: Path) -> None:
    """At temperature 30 hardly any word of it is one that was logged."""
    hot = {"max_new_tokens": 4, "device": "cpu", "temperature": 30.0}
    left = r"update 1: \d+% of its episodes left what the log supports"
    how = r"there is no checkpoint yet; --resume --most-halted (\S+) goes on"
    with pytest.raises(WorldlineError, match=f"{left}.*{how}") as stopped:
        train(recipe(start, world_model, tmp_path / "run", updates=1, rollout=hot))
    share = re.findall(how, str(stopped.value))[0]
    going_on = {"updates": 1, "rollout": hot, "resume": True, "most_halted": float(share)}
    assert train(recipe(start, world_model, tmp_path / "run", **going_on)).metrics["update"] == 1


def test_a_run_goes_on_only_in_the_world_model_it_began_in(start: Path, world_model: Path, tmp_path: Path) -> None:
    """Another bound on what is halted is no other run, nor is a run that lies in the world model's folder."""
    folder = tmp_path / "wm"
    Ensemble.load(world_model).save(folder)
    train(recipe(start, folder, folder / "run", updates=1))
    train(recipe(start, folder, folder / "run", updates=2, resume=True, most_halted=0.9))
    with (folder / "kernel" / "kernel.safetensors").open("ab") as weights:
        weights.write(b"other")
    with pytest.raises(InputError, match="imagined:"):
        train(recipe(start, folder, folder / "run", updates=3, resume=True))


def test_what_was_learned_before_the_policy_left_the_log_is_kept(
    start: Path, world_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two checkpoints: the weights that left the log are saved, and have learned nothing from doing so."""
    monkeypatch.setattr(
        "worldline.paw.train._halted", lambda played: float(played.trajectories[0].policy == "update-000001")
    )
    with pytest.raises(WorldlineError, match="update 2: 100% of its episodes.*update-000001 is whole"):
        train(recipe(start, world_model, tmp_path / "run", checkpoint_every=10))
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["update-000001"]
    monkeypatch.undo()
    assert train(recipe(start, world_model, tmp_path / "run", updates=2, resume=True)).metrics["update"] == 2
