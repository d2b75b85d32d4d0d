"""Exact values against closed forms, exhaustive unrolling and Monte Carlo."""

import math
import random
from collections.abc import Mapping

import pytest
from exact_values import exact_value, optimal_value
from household_playing import play

from worldline.envs.household import HouseholdConfig, HouseholdWorld
from worldline.types import InputError, Turn, derive_seed


@pytest.fixture(scope="module")
def world() -> HouseholdWorld:
    return HouseholdWorld(HouseholdConfig(level="tiny"))


def uniform(turn: Turn) -> Mapping[str, float]:
    return dict.fromkeys(turn.admissible, 1 / len(turn.admissible))


def opinionated(turn: Turn) -> Mapping[str, float]:
    """A tabular policy: every (goal, observation, command) has a fixed preference; one command is never understood."""
    weights = {c: 1 + derive_seed(turn.goal, turn.observation, c) % 9 for c in (*turn.admissible, "dance")}
    if turn.admissible[-1].startswith(("use", "take", "open")):
        weights[turn.admissible[-1]] += 40
    return {command: weight / sum(weights.values()) for command, weight in weights.items()}


def unrolled(world: HouseholdWorld, task: str, policy, gamma: float, horizon: int) -> float:
    """The same expectation by walking every branch of the real environment, without memory of states."""

    def value(env, observation: str, info, left: int) -> float:
        if left == 0:
            return 0.0
        total = 0.0
        for command, chance in policy(Turn("household", info["goal"], observation, info["admissible"], ())).items():
            twin = env.clone()
            answer, reward, over, _, after = twin.step(command)
            total += chance * (reward + (0.0 if over else gamma * value(twin, answer, after, left - 1)))
        return total

    env = world.make()
    observation, info = env.reset(task=task)
    return value(env, observation, info, horizon)


@pytest.mark.parametrize("policy", [uniform, opinionated])
@pytest.mark.parametrize("task", ["train/1", "train/7", "unseen/1"])
def test_equals_the_unrolled_expectation(world: HouseholdWorld, task: str, policy) -> None:
    exact = exact_value(world, task, policy, gamma=0.9, horizon=4)
    assert exact == pytest.approx(unrolled(world, task, policy, 0.9, 4), rel=1e-12)


def test_some_short_horizon_value_is_not_zero(world: HouseholdWorld) -> None:
    assert exact_value(world, "train/7", uniform, 0.9, 4) > 0


def test_monte_carlo_agrees(world: HouseholdWorld) -> None:
    rng = random.Random(0)
    exact = exact_value(world, "train/7", opinionated)

    def sample(turn: Turn) -> str:
        chances = opinionated(Turn(turn.family, turn.goal, turn.observation, turn.admissible, ()))
        return rng.choices(list(chances), weights=list(chances.values()))[0]

    count = 1500
    mean = sum(play(world.make(), "train/7", sample)[0] for _ in range(count)) / count
    assert abs(mean - exact) < 4 * math.sqrt(exact * (1 - exact) / count)


@pytest.mark.parametrize("index", range(6))
def test_a_policy_that_knows_the_way_is_worth_gamma_to_its_length(world: HouseholdWorld, index: int) -> None:
    task = world.get_task("train", index)
    path = world.walkthrough(task)
    env = world.make()
    observation, _ = env.reset(task=task)
    table = {}
    for command in path:
        assert observation not in table
        table[observation] = command
        observation = env.step(command)[0]
    value = exact_value(world, task, lambda turn: {table.get(turn.observation, "look"): 1.0}, gamma=0.8)
    assert value == pytest.approx(0.8 ** (len(path) - 1))
    assert exact_value(world, task, lambda turn: {table.get(turn.observation, "look"): 1.0}, 0.8, len(path) - 1) == 0.0


@pytest.mark.parametrize("index", range(12))
def test_walkthroughs_are_as_short_as_can_be(world: HouseholdWorld, index: int) -> None:
    task = world.get_task("unseen", index)
    assert optimal_value(world, task, gamma=0.5) == 0.5 ** (len(world.walkthrough(task)) - 1)


def test_no_policy_beats_the_optimum(world: HouseholdWorld) -> None:
    for index in range(6):
        task = world.get_task("train", index)
        assert 0 < exact_value(world, task, uniform, 0.9) < optimal_value(world, task, 0.9)


def test_bad_policies_and_horizons_are_refused(world: HouseholdWorld) -> None:
    with pytest.raises(InputError, match="sum to 1"):
        exact_value(world, "train/0", lambda turn: {"look": 0.5})
    with pytest.raises(InputError, match="horizon"):
        exact_value(world, "train/0", uniform, horizon=world.max_steps + 1)
