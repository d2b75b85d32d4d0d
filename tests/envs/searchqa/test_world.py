"""The environment's protocol, the expert's worth and the random floor, on the embedded encyclopedia."""

import random
from collections.abc import Callable

import pytest

from worldline.envs.searchqa.world import ANSWERED, HOW_TO_ACT, SearchQAConfig, SearchQAWorld
from worldline.types import Environment, Exchange, InputError, Turn, World, WorldlineError

WORLD = SearchQAWorld()


def play(world: World, task: str, policy: Callable[[Turn], str]) -> tuple[bool, float, bool]:
    """(won, score, whether every action was on the admissible list)."""
    environment = world.make()
    observation, info = environment.reset(task=task)
    goal, history, listed, done = info["goal"], [], True, False
    while not done:
        turn = Turn(world.family, goal, observation, info["admissible"], history)
        action = policy(turn)
        listed &= action in list(turn.admissible or ())
        history.append(Exchange(observation, action))
        observation, _, terminated, truncated, info = environment.step(action)
        done = terminated or truncated
    assert len(history) <= world.max_steps
    return info["won"], info["score"], listed


def test_it_is_a_world() -> None:
    assert isinstance(WORLD, World)
    assert isinstance(WORLD.make(), Environment)
    assert WORLD.splits() == ("train", "test")
    assert WORLD.num_tasks("train") > 1000


def test_the_expert_knows_how_and_the_random_policy_does_not() -> None:
    tasks = [WORLD.get_task("test", index) for index in range(300)]
    expert = [play(WORLD, task, WORLD.expert) for task in tasks]
    assert sum(won for won, _, _ in expert) / len(expert) >= 0.9
    assert sum(listed for _, _, listed in expert) / len(expert) >= 0.99
    draw = random.Random(0)
    chance = [play(WORLD, task, lambda turn: draw.choice(list(turn.admissible or ()))) for task in tasks]
    assert sum(won for won, _, _ in chance) / len(chance) < 0.1
    assert any(0 < score < 1 for _, score, _ in chance)


def test_search_answer_and_score() -> None:
    environment = WORLD.make()
    task = WORLD.get_task("train", 0)
    question = WORLD.question(task)
    observation, info = environment.reset(task=task)
    assert observation == info["goal"] == question.text
    assert info["task_id"] == task
    observation, reward, terminated, truncated, info = environment.step(f"<search>{task.split('/')[0]}</search>")
    assert observation.startswith("<information>Doc 1(Title: ")
    assert observation.endswith("</information>")
    assert observation.count("Doc ") == 3
    assert (reward, terminated, truncated, info["valid"]) == (0.0, False, False, True)
    assert len(info["admissible"] or ()) <= 24
    right = environment.clone()
    observation, reward, terminated, truncated, info = right.step(f"I think <answer> {question.answers[0]}. </answer>")
    assert (observation, reward, terminated, truncated) == (ANSWERED, 1.0, True, False)
    assert (info["won"], info["score"]) == (True, 1.0)
    observation, reward, _, _, info = environment.step(f"<answer>{question.answers[0]} or so, maybe</answer>")
    assert (observation, reward, info["won"]) == (ANSWERED, 0.0, False)
    assert 0 < info["score"] < 1


def test_f1_as_a_dense_reward() -> None:
    world = SearchQAWorld(SearchQAConfig(reward="f1"))
    environment = world.make()
    task = world.get_task("train", 0)
    environment.reset(task=task)
    _, reward, _, _, info = environment.step(f"<answer>perhaps {world.question(task).answers[0]}</answer>")
    assert 0 < reward == info["score"] < 1


@pytest.mark.parametrize(
    "action",
    ["", "Oslo", "<search></search>", "<answer> </answer>", "<search>x", "<search>a</search><answer>b</answer>"],
)
def test_what_is_neither_search_nor_answer_is_answered_and_costs_a_turn(action: str) -> None:
    environment = WORLD.make()
    environment.reset(task=WORLD.get_task("train", 1))
    for turn in range(4):
        observation, reward, terminated, truncated, info = environment.step(action)
        assert (observation, reward, terminated, info["valid"]) == (HOW_TO_ACT, 0.0, False, False)
        assert truncated is (turn == 3)
    with pytest.raises(WorldlineError, match="over"):
        environment.step("<search>more</search>")


def test_a_seed_draws_a_task_and_unknown_ones_are_named() -> None:
    environment = WORLD.make()
    assert environment.reset(seed=5)[1]["task_id"] == WORLD.make().reset(seed=5)[1]["task_id"]
    assert len({environment.reset(seed=seed)[1]["task_id"] for seed in range(20)}) > 10
    with pytest.raises(InputError, match="no task 'nonsense'"):
        environment.reset(task="nonsense")
    with pytest.raises(InputError, match="did you mean 'train'"):
        WORLD.num_tasks("trian")
    with pytest.raises(InputError, match="there is no question 99999"):
        WORLD.get_task("train", 99_999)


@pytest.mark.parametrize("seed", range(4))
def test_train_comes_first_whatever_the_seed(seed: int) -> None:
    assert SearchQAWorld(SearchQAConfig(seed=seed, entities=60)).splits() == ("train", "test")
