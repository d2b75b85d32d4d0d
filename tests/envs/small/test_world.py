"""What all small worlds have in common: the environment contract, draws of task and seed, exact policies."""

import pickle
import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from worldline import envs
from worldline.envs import WORLDS
from worldline.envs.small.script import Script, ScriptedPolicy
from worldline.envs.small.world import SPLITS, SmallWorld
from worldline.rollout import Rollout, plan
from worldline.types import (
    Environment,
    Exchange,
    InputError,
    ScoringPolicy,
    Trajectory,
    Turn,
    World,
    WorldlineError,
    turns,
)

NAMES = [name for name, source in WORLDS.items() if ".small." in source.world]


def small(name: str) -> SmallWorld:
    world = envs.load(name)
    assert isinstance(world, SmallWorld)
    return world


def played(world: SmallWorld, script: Script, episodes: int = 20, seed: int = 3) -> list[Trajectory]:
    return list(Rollout(world, script.load(world)).play(plan(world, "test", episodes, seed=seed, run="t")))


def first(world: SmallWorld) -> str:
    return next(iter(world.scripts))


def test_there_are_worlds_of_many_kinds() -> None:
    assert len(NAMES) >= 11


@pytest.mark.parametrize("name", NAMES)
def test_contract(name: str) -> None:
    world = small(name)
    assert isinstance(world, World) and isinstance(world.make(), Environment)
    assert world.name == name and world.splits() == ("train", "test")
    assert pickle.loads(pickle.dumps(world)).get_task("test", 3) == "test/3"
    with pytest.raises(InputError, match="there is no task 600"):
        world.get_task("train", SPLITS["train"])
    with pytest.raises(InputError, match="has no split 'tset': did you mean 'test'"):
        world.num_tasks("tset")
    with pytest.raises(InputError, match=f"no {name} task 'train/x'"):
        world.make().reset(task="train/x")
    env = world.make()
    with pytest.raises(WorldlineError, match="reset"):
        env.step("anything")
    observation, info = env.reset(seed=5)
    assert observation and info["goal"] and info["task_id"].startswith("train/")
    _, _, _, _, info = env.step("qqq")
    assert info["valid"] is False or info["admissible"] is None


@pytest.mark.parametrize("name", NAMES)
def test_an_episode_is_a_function_of_task_seed_and_actions(name: str) -> None:
    world = small(name)
    one, other = (played(world, Script(first(world), 0.5)) for _ in range(2))
    assert one == other
    assert one != played(world, Script(first(world), 0.5), seed=4)


@pytest.mark.parametrize("name", NAMES)
def test_returns_and_lengths_stay_within_what_the_world_states(name: str) -> None:
    world = small(name)
    low, high = world.return_range
    for rule in world.scripts:
        for episode in played(world, Script(rule)):
            assert low - 1e-9 <= episode.episode_return <= high + 1e-9
            assert 1 <= len(episode) <= world.max_steps
            assert episode.terminated != episode.truncated


@pytest.mark.parametrize("name", NAMES)
def test_clones_go_their_own_way_from_the_same_state(name: str) -> None:
    world = small(name)
    for episode in played(world, Script(first(world), 0.3), episodes=5):
        env = world.make()
        env.reset(seed=episode.seed, task=episode.task_id)
        for step in episode.steps[:-1]:
            env.step(step.action)
        twin = env.clone()
        answers = [each.step(episode.steps[-1].action) for each in (twin, env)]
        assert answers[0] == answers[1]
        assert answers[0][0] == episode.final_observation


@pytest.mark.parametrize("name", NAMES)
def test_the_draws_of_a_task_are_its_own(name: str) -> None:
    world = small(name)
    assert world.fixed("test/7").random() == world.fixed("test/7").random() != world.fixed("test/8").random()


@pytest.mark.parametrize("name", NAMES)
def test_policies_know_their_probabilities(name: str) -> None:
    """They sum to 1 on every turn, and are those with which actions are drawn."""
    world = small(name)
    for rule in world.scripts:
        policy = Script(rule, 0.3).load(world)
        assert isinstance(policy, ScoringPolicy) and isinstance(policy, ScriptedPolicy)
        episode = played(world, Script(rule, 0.3), episodes=1)[0]
        for turn, step in zip(turns(episode), episode.steps, strict=True):
            options = policy.options(turn)
            assert sum(options.values()) == pytest.approx(1.0)
            assert step.logprob == pytest.approx(np.log(options[step.action]))
            (logprobs,) = policy.logprobs([turn], [[*options, "no such action"]])
            assert np.exp(logprobs).sum() == pytest.approx(1.0) and logprobs[-1] == -np.inf


@pytest.mark.parametrize("name", NAMES)
def test_actions_are_drawn_as_often_as_they_say(name: str) -> None:
    world = small(name)
    policy = Script(first(world), 0.5).load(world)
    assert isinstance(policy, ScriptedPolicy)
    turn = next(turns(played(world, Script(first(world)), episodes=1)[0]))
    draws = random.Random(0)
    many = [replace(turn, seed=draws.getrandbits(60)) for _ in range(4000)]
    counts = Counter(decision.action for decision in policy.act(many))
    for action, p in policy.options(turn).items():
        assert counts[action] / len(many) == pytest.approx(p, abs=5 * (p * (1 - p) / len(many)) ** 0.5 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_script_is_the_expert_and_nobody_is_better(name: str) -> None:
    world = small(name)
    episode = played(world, Script(first(world)), episodes=1)[0]
    assert [world.expert(turn) for turn in turns(episode)] == [step.action for step in episode.steps]
    values = {rule: [e.episode_return for e in played(world, Script(rule), episodes=100)] for rule in world.scripts}
    best = np.mean(values[first(world)])
    for rule, returns in values.items():
        assert np.mean(returns) <= best + 4 * np.std(returns) / 10 + 1e-9, rule


@pytest.mark.parametrize("name", NAMES)
def test_scripts_act_on_whatever_an_imagined_world_says(name: str) -> None:
    """Sentences of this world in any order, of other worlds, with other numbers, and none at all."""
    world, draws = small(name), random.Random(0)
    texts = ["", "???", "Nothing happens."]
    for each in {name, *draws.sample(NAMES, 3)}:
        for episode in played(small(each), Script(first(small(each)), 0.5), episodes=3):
            texts += [step.observation for step in episode.steps] + [step.action for step in episode.steps]
    texts += [re.sub(r"\d+", lambda match: str(draws.randrange(10**6)), text) for text in texts]
    for _ in range(150):
        history = tuple(Exchange(draws.choice(texts), draws.choice(texts)) for _ in range(draws.randrange(5)))
        listed = draws.choice([None, (), tuple(draws.sample(texts[3:], 3))])
        turn = Turn("generic", "", draws.choice(texts), listed, history, task="test/3")
        for rule in world.scripts:
            policy = Script(rule).load(world)
            assert isinstance(policy, ScriptedPolicy)
            assert sum(policy.options(turn).values()) == pytest.approx(1.0)
