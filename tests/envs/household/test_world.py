"""The household world keeps the environment contract, and its tasks are what their goals say."""

import pickle
import random

import pytest
from household_playing import play

from worldline.envs.household import HouseholdConfig, HouseholdWorld
from worldline.envs.household.generator import layouts
from worldline.envs.household.wording import FAMILIES, read_request
from worldline.types import Environment, InputError, World, WorldlineError


@pytest.fixture(scope="module")
def world() -> HouseholdWorld:
    return HouseholdWorld()


def random_policy(seed: int):
    rng = random.Random(seed)
    return lambda turn: rng.choice(turn.admissible)


def test_is_a_world_and_an_environment(world: HouseholdWorld) -> None:
    assert isinstance(world, World)
    assert isinstance(world.make(), Environment)


def test_every_task_is_as_its_sentence_says(world: HouseholdWorld) -> None:
    for index in range(60):
        task = world.get_task("train", index)
        observation, info = world.make().reset(task=task)
        assert observation.endswith(f"\n\nYour task is to: {info['goal']}")
        assert read_request(info["goal"]).family == FAMILIES[index % 6]
        assert info == {**info, "won": False, "valid": True, "task_id": task, "score": 0.0}


@pytest.mark.parametrize("level", ["tiny", "small", "standard"])
@pytest.mark.parametrize("split", ["train", "seen", "unseen"])
def test_walkthroughs_win_and_nothing_less_does(level: str, split: str) -> None:
    world = HouseholdWorld(HouseholdConfig(level=level))
    env = world.make()
    for index in range(120):
        task = world.get_task(split, index)
        env.reset(task=task)
        *before, last = world.walkthrough(task)
        for command in before:
            _, reward, terminated, truncated, info = env.step(command)
            assert (reward, terminated, truncated, info["won"], info["valid"]) == (0.0, False, False, False, True)
        _, reward, terminated, truncated, info = env.step(last)
        assert (reward, terminated, truncated, info["won"], info["score"]) == (1.0, True, False, True, 1.0)


def test_unseen_layouts_are_in_no_other_split(world: HouseholdWorld) -> None:
    rooms = {
        split: {world.engine(world.get_task(split, index)).game.receptacles for index in range(300)}
        for split in world.splits()
    }
    assert not rooms["unseen"] & (rooms["train"] | rooms["seen"])
    assert rooms["seen"] & rooms["train"]
    planned = layouts("standard", 0)
    assert not set(planned["unseen"]) & set(planned["train"])


def test_seen_tasks_are_not_train_tasks(world: HouseholdWorld) -> None:
    def puzzles(split: str, count: int) -> set[object]:
        games = [world.engine(world.get_task(split, index)).game for index in range(count)]
        return {(game.receptacles, game.objects, tuple(game.initial.contents), game.goal) for game in games}

    assert not puzzles("seen", 200) & puzzles("train", 1000)


def test_tasks_depend_on_the_seed_and_on_nothing_else() -> None:
    first, again, other = (HouseholdWorld(HouseholdConfig(seed=seed)) for seed in (3, 3, 4))
    first.engine("train/0")  # another order of making must not matter
    ids = [first.get_task("train", index) for index in (5, 2, 9)]
    assert [first.engine(task).introduction for task in ids] == [again.engine(task).introduction for task in ids]
    assert [first.engine(task).introduction for task in ids] != [other.engine(task).introduction for task in ids]
    assert first.version != other.version


def test_invalid_commands_are_answered_and_cost_budget(world: HouseholdWorld) -> None:
    env = world.make()
    _, before = env.reset(task="train/0")
    for number in range(world.max_steps):
        observation, reward, terminated, truncated, info = env.step("fly to the moon")
        assert (observation, reward, terminated, info["valid"]) == ("Nothing happens.", 0.0, False, False)
        assert info["admissible"] == before["admissible"]
        assert truncated == (number == world.max_steps - 1)
    with pytest.raises(WorldlineError, match="over"):
        env.step("look")
    with pytest.raises(WorldlineError, match="reset"):
        world.make().step("look")


def test_admissible_means_exactly_what_is_understood(world: HouseholdWorld) -> None:
    rng = random.Random(1)
    vocabulary: set[str] = set()
    for index in range(12):
        env = world.make()
        _, info = env.reset(task=world.get_task("train", index))
        for _ in range(world.max_steps - 1):
            vocabulary |= set(info["admissible"])
            assert list(info["admissible"]) == sorted(set(info["admissible"]))
            for command in rng.sample(sorted(vocabulary), 5):
                assert env.clone().step(command)[4]["valid"] == (command in info["admissible"])
            _, _, terminated, _, info = env.step(rng.choice(info["admissible"]))
            if terminated:
                break


def test_a_clone_goes_its_own_way(world: HouseholdWorld) -> None:
    task = world.get_task("train", 3)
    env, straight = world.make(), world.make()
    env.reset(task=task)
    straight.reset(task=task)
    for command in world.walkthrough(task):
        twin, idle = env.clone(), env.clone()
        for _ in range(3):
            _, _, _, _, info = idle.step("look")
            idle.step(random.Random(0).choice(info["admissible"]))
        expected = straight.step(command)
        assert twin.step(command) == expected
        assert env.step(command) == expected


def test_closed_receptacles_hide_their_content(world: HouseholdWorld) -> None:
    for index in range(30):
        game = world.engine(world.get_task("train", index)).game
        env = world.make()
        env.reset(task=world.get_task("train", index))
        for number, name in enumerate(game.receptacles):
            if not game.openable >> number & 1:
                continue
            shut, _, _, _, info = env.clone().step(f"go to {name}")
            assert shut == f"You arrive at {name}. The {name} is closed."
            inside = [game.objects[o] for o in range(len(game.objects)) if game.initial.contents[number] >> o & 1]
            assert not any(
                thing in command for thing in inside for command in info["admissible"] if "use" not in command
            )
            twin = env.clone()
            twin.step(f"go to {name}")
            opened, _, _, _, info = twin.step(f"open {name}")
            assert all(f"a {thing}" in opened for thing in inside)


def test_random_rarely_succeeds(world: HouseholdWorld) -> None:
    returns = [play(world.make(), world.get_task("train", index), random_policy(index))[0] for index in range(200)]
    assert sum(returns) / len(returns) < 0.05


def test_families_can_be_chosen() -> None:
    world = HouseholdWorld(HouseholdConfig(families=("heat", "look")))
    goals = [read_request(world.make().reset(task=world.get_task("unseen", index))[1]["goal"]) for index in range(20)]
    assert [goal.family for goal in goals] == ["heat", "look"] * 10


def test_the_task_is_worded_in_many_ways(world: HouseholdWorld) -> None:
    goals = {world.engine(world.get_task("train", index)).game.task for index in range(0, 300, 6)}
    shapes = {goal.replace(read_request(goal).thing, "_").replace(read_request(goal).target, "_") for goal in goals}
    assert len(shapes) >= 4


def test_a_seed_draws_a_train_task(world: HouseholdWorld) -> None:
    drawn = [world.make().reset(seed=seed)[1]["task_id"] for seed in (0, 1, 0)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert all(task.startswith("train/") for task in drawn)


def test_a_world_can_be_sent_to_a_worker(world: HouseholdWorld) -> None:
    sent = pickle.loads(pickle.dumps(world))
    assert sent.make().reset(task="unseen/7") == world.make().reset(task="unseen/7")


@pytest.mark.parametrize("task", ["train/6000", "train/-1", "train/x", "nowhere/1", "", "train/²"])
def test_unknown_tasks_are_refused(world: HouseholdWorld, task: str) -> None:
    with pytest.raises(InputError, match="household"):
        world.make().reset(task=task)


def test_unknown_splits_and_indices_are_refused(world: HouseholdWorld) -> None:
    with pytest.raises(InputError, match="there are train, seen, unseen"):
        world.num_tasks("test")
    with pytest.raises(InputError, match="600 tasks"):
        world.get_task("seen", 600)
