"""Values by imagination against reality, and how they are put together."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from tiny_house import mixed, play

from worldline.adwm.fit import Fitted
from worldline.adwm.kernel_env import KernelWorld
from worldline.adwm.value import Imagined, discounted, enough, imagine
from worldline.adwm.world_model_env import ImaginedWorld
from worldline.policies.mixing import FunctionPolicy
from worldline.types import Decision, Policy, Trajectory, Turn, World, WorldlineError


def by_wm(
    fitted: Fitted, policy: Policy, starts: Sequence[Trajectory] | None = None, rollouts: int = 1, seed: int = 0
) -> Imagined:
    world = KernelWorld(fitted.ensemble.kernel, fitted.ensemble.facts, starts=starts)
    return imagine(world, policy, rollouts=rollouts, seed=seed)


def test_values_of_wm_agree_with_reality(fitted: Fitted, house: World) -> None:
    """Policies of graded quality that are not in the log: imagined value against 96 real episodes."""
    errors = []
    for epsilon in (0.0, 0.4, 0.8):
        true = np.mean([episode.episode_return for episode in play(house, epsilon, 96, seed=5)])
        values = by_wm(fitted, mixed(house, epsilon), rollouts=2, seed=3).values
        errors.append(abs(values.mean() - true))
    assert np.mean(errors) < 0.08
    assert max(errors) < 0.15


def test_each_loggers_own_value_comes_back(fitted: Fitted, house: World, log: list[Trajectory]) -> None:
    """The null test."""
    for epsilon in (0.2, 0.6):
        logged = np.array([episode.episode_return for episode in log if episode.epsilon == epsilon])
        values = by_wm(fitted, mixed(house, epsilon), rollouts=1, seed=4).values
        error = np.sqrt(logged.var() / len(logged) + values.var() / 24)
        assert abs(values.mean() - logged.mean()) < 2.5 * error + 0.02


def test_an_episode_has_the_mean_of_its_task(fitted: Fitted, house: World, log: list[Trajectory]) -> None:
    """Every logged episode of a task has the mean over that task's rollouts, by `adwm` too."""
    world = ImaginedWorld(fitted.ensemble, starts=log[:6] + log[24:27])
    played = imagine(world, mixed(house, 0.6), rollouts=2, seed=1, gamma=0.9)
    assert len(played.trajectories) == 12
    for start, value in zip(log[:6] + log[24:27], played.values, strict=True):
        returns = [discounted(t, 0.9) for t in played.trajectories if t.task_id == start.task_id]
        assert value == pytest.approx(np.mean(returns))


def test_a_policy_that_raises_in_the_model_is_one_line(fitted: Fitted) -> None:
    def late(turn: Turn) -> str:
        return "look" if not turn.history else str(1 / 0)

    line = r"policy 'late' failed in the world model, at task \S+: ZeroDivisionError: .* \(.*, line \d+\)$"
    with pytest.raises(WorldlineError, match=line) as caught:
        by_wm(fitted, FunctionPolicy(late, "late"), rollouts=1)
    assert caught.value.exit_code == 1, "as in `collect`"


def test_a_policy_that_raises_at_some_texts_loses_these_episodes_alone(
    fitted: Fitted, house: World, log: list[Trajectory]
) -> None:
    """The others are as without it, whoever shared the batch; a task without any has the mean of the other tasks."""
    starts = list({episode.task_id: episode for episode in log}.values())
    lost, *kept = [start.task_id for start in starts]

    class Careful:
        name = "careful"

        def __init__(self, unable: bool) -> None:
            self.sure, self.unable = mixed(house, 0.2), unable

        def act(self, turns: Sequence[Turn]) -> Iterator[Decision]:
            """A generator: what it raises comes out where it is read."""
            for turn in turns:
                if turn.task == lost and turn.history and not self.unable:
                    raise ZeroDivisionError("no such room")
                (decision,) = self.sure.act([turn])
                yield replace(decision, failure="cannot say") if turn.task == lost and self.unable else decision

    whole = by_wm(fitted, mixed(house, 0.2), starts=starts, rollouts=2)
    assert len(set(whole.values)) > 1 and whole.values[0] != whole.values[1:].mean()
    assert (whole.lost, whole.failure) == (0.0, "")
    for unable in (False, True):
        partly = by_wm(fitted, Careful(unable), starts=starts, rollouts=2)  # type: ignore[arg-type]  # act may be a generator
        assert partly.values[1:] == pytest.approx(whole.values[1:])
        assert partly.values[0] == pytest.approx(whole.values[1:].mean())
        assert partly.lost == pytest.approx(1 / len(starts))
        assert ("cannot say" if unable else "ZeroDivisionError: no such room") in partly.failure
        assert [t.task_id for t in partly.trajectories] == [task for task in kept for _ in range(2)]


def test_rollouts_make_up_what_is_enough() -> None:
    assert [enough(tasks) for tasks in (1, 512, 513, 100)] == [512, 1, 1, 6]


def test_later_rewards_are_discounted(log: list[Trajectory]) -> None:
    episode = log[0]
    assert discounted(episode, 0.5) == sum(0.5**at * step.reward for at, step in enumerate(episode.steps))
