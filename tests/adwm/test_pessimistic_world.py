"""An imagined world to train in: it is the model's world as far as the log goes, and pays the least beyond."""

from pathlib import Path

import pytest
from kernel_fits import fit_of_lamps
from written_logs import RED

from worldline import envs
from worldline.adwm.ensemble import Ensemble
from worldline.adwm.fitting.survey import facts_of
from worldline.adwm.kernel_env import KernelWorld
from worldline.adwm.pessimistic_world import PessimisticWorld
from worldline.collect_settings import CollectConfig, run_name
from worldline.kernel.model import KernelModel
from worldline.policies import PolicyConfig, load
from worldline.rollout import Rollout, plan
from worldline.types import InputError, Trajectory, World


@pytest.fixture(scope="module")
def model() -> KernelModel:
    return fit_of_lamps()[0]


def played(world: World, episodes: int = 20) -> list[Trajectory]:
    player = Rollout(world, load("random", world, PolicyConfig()), batch_size=8)
    return sorted(player.play(plan(world, "log", episodes, seed=1, run="x")), key=lambda episode: episode.id)


def test_what_the_log_supports_is_the_models_world(model: KernelModel) -> None:
    facts = facts_of(model.log.episodes)
    cautious, plain = played(PessimisticWorld(model, facts)), played(KernelWorld(model, facts))
    assert [(e.steps, e.success, e.terminated) for e in cautious] == [(e.steps, e.success, e.terminated) for e in plain]
    assert {episode.meta["halted"] for episode in cautious} == {"false"}


def test_beyond_the_log_an_episode_has_the_lowest_logged_return(model: KernelModel) -> None:
    """Whatever it had collected before; and it is over."""
    world = PessimisticWorld(model, facts_of(model.log.episodes))
    returns = [episode.episode_return for episode in model.log.episodes]
    assert world.min_return == min(returns)
    assert min(returns) < max(returns)
    paid = 0
    for seed in range(40):
        environment = world.make()
        environment.reset(seed=seed, task="t3")
        _, collected, ended, _, _ = environment.step("press")
        if ended:
            continue
        _, reward, ended, cut, info = environment.step("paint the ceiling with soup")
        assert (ended, cut, info["halted"], info["won"]) == (True, False, True, False)
        assert collected + reward == pytest.approx(min(returns))
        paid += collected > 0
    assert paid, "no episode had collected anything before it was halted"


def test_a_halted_episode_is_not_won_where_every_logged_one_is(model: KernelModel) -> None:
    """The lowest return of such a log is that of a win, and worlds whose score is 1 are won by it."""
    world = PessimisticWorld(model, facts_of(model.log.episodes))
    world.min_return = 1.0
    environment = world.make()
    environment.reset(seed=0, task="t3")
    _, reward, _, _, info = environment.step("paint the ceiling with soup")
    assert (reward, info["score"], info["won"]) == (1.0, 0.0, False)


def test_episodes_of_two_world_models_are_two_runs(model: KernelModel, tmp_path: Path) -> None:
    """So `collect --resume` never mixes them."""
    Ensemble((), model).save(tmp_path / "wm")
    config = CollectConfig(env=f"imagined:{tmp_path / 'wm'}", policy="random")
    before = run_name(config)
    assert before.startswith(config.settings_name) and before != config.settings_name
    assert run_name(config) == before
    weights = next((tmp_path / "wm" / "kernel").iterdir())
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert run_name(config) != before


def test_a_folder_of_fit_is_an_environment_by_name(model: KernelModel, tmp_path: Path) -> None:
    Ensemble((), model).save(tmp_path / "wm")
    world = envs.load(f"imagined:{tmp_path / 'wm'}")
    assert isinstance(world, PessimisticWorld)
    assert world.name == f"imagined:{model.log.episodes[0].env}"
    assert type(envs.load(f"imagined:{tmp_path / 'wm'}", options={"halt": False})) is KernelWorld
    observation, _ = world.make().reset(seed=0, task="t1")
    assert observation.startswith(RED.split()[0])
    with pytest.raises(InputError, match="make one with worldline fit"):
        envs.load(f"imagined:{tmp_path}")
    with pytest.raises(InputError, match="names no world model: write imagined:FOLDER"):
        envs.load("imagined:")
    with pytest.raises(InputError, match="was played in a world model, 'imagined:household': --env imagined:FOLDER"):
        envs.load_builtin("imagined:household", source="the log")
    with pytest.raises(InputError, match="takes no --data"):
        envs.load(f"imagined:{tmp_path / 'wm'}", tmp_path)
