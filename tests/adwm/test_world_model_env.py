"""The latent world as an environment: the same engine, the same protocol."""

import numpy as np
import pytest
from tiny_house import mixed

from worldline.adwm.fit import Fitted
from worldline.adwm.imagination import IMAGINATION_PRESETS
from worldline.adwm.value import imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.rollout import Rollout, plan
from worldline.types import Environment, InputError, Trajectory, World, WorldlineError


@pytest.fixture(scope="module")
def dream(fitted: Fitted) -> ImaginedWorld:
    return ImaginedWorld(fitted.ensemble)


def test_it_is_a_world_like_any_other(dream: ImaginedWorld, log: list[Trajectory]) -> None:
    assert isinstance(dream, World)
    assert isinstance(dream.make(), Environment)
    assert dream.splits() == ("log",)
    assert dream.num_tasks("log") == 24
    assert dream.max_steps == max(len(episode) for episode in log)
    assert dream.family == "household"
    environment = dream.make()
    observation, info = environment.reset(seed=1, task=log[3].task_id)
    assert observation == log[3].steps[0].observation
    assert info["goal"] == log[3].goal
    assert tuple(info["admissible"] or ()) == log[3].steps[0].admissible


def test_a_batch_imagines_what_single_episodes_do(fitted: Fitted, house: World) -> None:
    """Nothing depends on who shares the batch."""
    world = ImaginedWorld(fitted.ensemble)

    def steps_of(batch_size: int) -> dict[str, list[tuple[str, str]]]:
        player = Rollout(world, mixed(house, 0.5), batch_size=batch_size, max_steps=6)
        played = player.play(plan(world, "log", 12, seed=1, run="x"))
        return {episode.id: [(step.observation, step.action) for step in episode.steps] for episode in played}

    together, alone = steps_of(12), steps_of(1)
    same = [together[name] == alone[name] for name in together]
    assert np.mean(same) > 0.9  # padding may move a probability by a rounding error across a draw


def test_a_clone_goes_its_own_way(dream: ImaginedWorld, log: list[Trajectory]) -> None:
    environment = dream.make()
    _, info = environment.reset(seed=3, task=log[0].task_id)
    actions = [a for a in info["admissible"] or () if a.startswith("go to")]
    environment.step(actions[0])
    twin = environment.clone()
    assert twin.step(actions[1])[0] == environment.step(actions[1])[0]
    twin.step(actions[0])
    assert len(environment.state.actions) == 2
    assert len(twin.state.actions) == 3


def test_episodes_end_with_the_horizon(dream: ImaginedWorld, log: list[Trajectory]) -> None:
    environment = dream.make()
    environment.reset(seed=3, task=log[0].task_id)
    for step in range(dream.max_steps):
        _, _, terminated, truncated, _ = environment.step("look")
        assert truncated == (step + 1 == dream.max_steps and not terminated)
    with pytest.raises(WorldlineError, match="over"):
        environment.step("look")


def test_a_task_without_a_start_is_refused(dream: ImaginedWorld) -> None:
    with pytest.raises(InputError, match="is not in the log"):
        dream.make().reset(seed=0, task="train/5999")


@pytest.mark.parametrize("name", sorted(IMAGINATION_PRESETS))
def test_every_preset_plays_to_the_end(fitted: Fitted, house: World, name: str) -> None:
    world = ImaginedWorld(fitted.ensemble, IMAGINATION_PRESETS[name])
    player = Rollout(world, mixed(house, 0.6), batch_size=8)
    played = list(player.play(plan(world, "log", 6, seed=0, run="x")))
    assert not player.failed
    assert len(played) == 6
    assert all(-1e-6 <= episode.episode_return <= 1.02 for episode in played)
    assert world.support.steps == sum(len(episode) for episode in played)


def test_imagined_episodes_say_what_they_are(fitted: Fitted, house: World) -> None:
    imagined = imagine(ImaginedWorld(fitted.ensemble), mixed(house, 0.3), rollouts=1, seed=1)
    assert {episode.env for episode in imagined.trajectories} == {"imagined:household"}
    assert len(imagined.values) == len(fitted.ensemble.episodes)
