"""The generated shop: what its goals promise, and that its expert and a random shopper are what they should be."""

import random
from collections.abc import Callable

import pytest

from worldline.envs.webshop import ShopConfig, ShopWorld
from worldline.envs.webshop.reward import score
from worldline.types import Environment, Exchange, InputError, Turn, World, WorldlineError


@pytest.fixture(scope="module")
def shop() -> ShopWorld:
    return ShopWorld(ShopConfig())


def play(world: ShopWorld, task: str, policy: Callable[[Turn], str]) -> tuple[float, list[str]]:
    env = world.make()
    observation, info = env.reset(task=task)
    history: list[Exchange] = []
    while True:
        action = policy(Turn("shop", info["goal"], observation, info["admissible"], history))
        history.append(Exchange(observation, action))
        observation, reward, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            return reward, [exchange.action for exchange in history]


def test_implements_the_protocols(shop: ShopWorld) -> None:
    assert isinstance(shop, World)
    assert isinstance(shop.make(), Environment)
    assert shop.splits() == ("train", "test")


def test_every_goal_is_met_by_its_own_product_and_not_by_a_wrong_option(shop: ShopWorld) -> None:
    for split in shop.splits():
        for i in range(shop.num_tasks(split)):
            goal = shop.tasks[shop.get_task(split, i)]
            right = [value for _, value in goal.options]
            assert score(goal, goal.product, right, shop.nouns).total == 1.0, goal.instruction
            for name, value in goal.options:
                rest = [v for n, v in goal.options if n != name]
                for other in set(goal.product.options[name]) - {value}:
                    assert score(goal, goal.product, [*rest, other], shop.nouns).total < 1.0, (goal.instruction, other)


def test_no_product_is_the_goal_of_both_splits(shop: ShopWorld) -> None:
    asins = [{shop.get_task(split, i).split("-")[-1] for i in range(shop.num_tasks(split))} for split in shop.splits()]
    assert asins[0].isdisjoint(asins[1])
    assert asins[0] | asins[1] == {product.asin for product in shop.catalogue.products}


def test_instructions_name_what_is_wanted_and_differ_in_wording(shop: ShopWorld) -> None:
    goals = [shop.tasks[shop.get_task("train", i)] for i in range(shop.num_tasks("train"))]
    for goal in goals:
        assert all(attribute in goal.instruction for attribute in goal.attributes)
        assert all(value in goal.instruction for _, value in goal.options)
        assert f"{goal.price_upper:.0f}" in goal.instruction
    assert len({goal.instruction for goal in goals}) > 0.99 * len(goals)


def test_expert_buys_well_and_a_random_shopper_does_not(shop: ShopWorld) -> None:
    rng = random.Random(0)
    tasks = [shop.get_task("test", i) for i in range(150)]
    expert = [play(shop, task, shop.expert)[0] for task in tasks]
    chance = [play(shop, task, lambda turn: rng.choice(list(turn.admissible or ())))[0] for task in tasks]
    assert sum(expert) / len(expert) >= 0.9
    assert sum(reward == 1 for reward in expert) / len(expert) >= 0.8
    assert sum(reward == 1 for reward in chance) / len(chance) < 0.05
    assert len({round(reward, 3) for reward in chance}) > 5  # a spread of partial scores


def test_expert_only_does_what_the_page_offers(shop: ShopWorld) -> None:
    def checked(turn: Turn) -> str:
        action = shop.expert(turn)
        assert action in (turn.admissible or ()) or action.startswith("search[")
        return action

    for i in range(40):
        play(shop, shop.get_task("train", i), checked)


def test_same_seed_same_shop_and_other_seed_another(shop: ShopWorld) -> None:
    again, other = ShopWorld(), ShopWorld(ShopConfig(seed=1))
    tasks = [shop.get_task("test", i) for i in range(20)]
    assert [again.tasks[task].instruction for task in tasks] == [shop.tasks[task].instruction for task in tasks]
    assert other.get_task("test", 0) != shop.get_task("test", 0)


def test_budget_truncates_and_an_ended_episode_takes_no_step(shop: ShopWorld) -> None:
    env = shop.make()
    env.reset(seed=3)
    for i in range(shop.max_steps):
        _, reward, terminated, truncated, info = env.step("dance")
        assert (reward, terminated, info["valid"]) == (0.0, False, False)
        assert truncated == (i == shop.max_steps - 1)
    with pytest.raises(WorldlineError, match="reset"):
        env.step("dance")


def test_a_clone_goes_its_own_way(shop: ShopWorld) -> None:
    task = shop.get_task("train", 0)
    product = shop.tasks[task].product
    env = shop.make()
    env.reset(task=task)
    env.step(f"search[{product.title}]")
    env.step(f"click[{product.asin.lower()}]")
    name, values = next(iter(product.options.items()))
    env.step(f"click[{values[0]}]")
    twin = env.clone()
    twin.step(f"click[{values[1]}]")
    final, _, terminated, _, _ = env.step("click[buy now]")
    assert terminated
    assert f'"{name}": "{values[0]}"' in final
    assert f'"{name}": "{values[1]}"' in twin.step("click[buy now]")[0]


def test_unknown_names_are_refused(shop: ShopWorld) -> None:
    with pytest.raises(InputError, match="did you mean 'train'"):
        shop.num_tasks("trian")
    with pytest.raises(InputError, match="no task 'x'"):
        shop.make().reset(task="x")
