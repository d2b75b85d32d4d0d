"""Imagination: the same engine, the same protocol, and values that agree with reality."""

import numpy as np
import pytest
from tiny_house import mixed, play

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


def test_values_agree_with_reality(fitted: Fitted, house: World) -> None:
    """Policies of graded quality that are not in the log: imagined value against 96 real episodes."""
    errors = []
    for epsilon in (0.0, 0.4, 0.8):
        true = np.mean([episode.episode_return for episode in play(house, epsilon, 96, seed=5)])
        errors.append(abs(imagine(fitted.ensemble, mixed(house, epsilon), rollouts=4, seed=3).values.mean() - true))
    assert np.mean(errors) < 0.08
    assert max(errors) < 0.15


def test_each_loggers_own_value_comes_back(fitted: Fitted, house: World, log: list[Trajectory]) -> None:
    """The null test."""
    for epsilon in (0.2, 0.6):
        logged = np.array([episode.episode_return for episode in log if episode.epsilon == epsilon])
        values = imagine(fitted.ensemble, mixed(house, epsilon), rollouts=1, seed=4).values
        error = np.sqrt(logged.var() / len(logged) + values.var() / 24)
        assert abs(values.mean() - logged.mean()) < 2.5 * error + 0.02


def test_a_batch_imagines_what_single_episodes_do(fitted: Fitted, house: World) -> None:
    """Nothing depends on who shares the batch."""
    world = ImaginedWorld(fitted.ensemble)

    def steps_of(batch_size: int) -> dict[str, list[tuple[str, str]]]:
        player = Rollout(world, mixed(house, 0.5), batch_size=batch_size)
        played = player.play(plan(world, "log", 24, seed=1, run="x"))
        return {episode.id: [(step.observation, step.action) for step in episode.steps] for episode in played}

    together, alone = steps_of(24), steps_of(1)
    same = [together[name] == alone[name] for name in together]
    assert np.mean(same) > 0.95  # padding may move a probability by a rounding error across a draw


def test_the_same_seed_is_the_same_imagined_world_for_every_policy(dream: ImaginedWorld, log: list[Trajectory]) -> None:
    """Whoever goes there, and whenever, sees the same thing."""
    actions = [a for a in log[0].steps[0].admissible or () if a.startswith("go to")]
    first, second = dream.make(), dream.make()
    first.reset(seed=7, task=log[0].task_id)
    second.reset(seed=7, task=log[0].task_id)
    seen = {action: first.step(action)[0] for action in actions}
    for action in reversed(actions):
        assert second.step(action)[0] == seen[action]


def test_a_clone_goes_its_own_way(dream: ImaginedWorld, log: list[Trajectory]) -> None:
    environment = dream.make()
    _, info = environment.reset(seed=3, task=log[0].task_id)
    actions = [a for a in info["admissible"] or () if a.startswith("go to")]
    environment.step(actions[0])
    twin = environment.clone()
    assert twin.step(actions[1])[0] == environment.step(actions[1])[0]
    twin.step(actions[0])
    assert len(environment.history.actions) == 2
    assert len(twin.history.actions) == 3


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
    imagined = imagine(fitted.ensemble, mixed(house, 0.3), rollouts=1, seed=1)
    assert {episode.env for episode in imagined.trajectories} == {"imagined:household"}
    assert len(imagined.values) == len(fitted.ensemble.log_model.episodes)
