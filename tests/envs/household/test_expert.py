"""The expert solves every task from what it reads, whoever acted before it."""

import random

import pytest
from household_playing import play

from worldline.envs.household import HouseholdConfig, HouseholdWorld
from worldline.envs.household.wording import FAMILIES, PHRASES, TaskRequest, phrase, read_request
from worldline.types import InputError, Turn


@pytest.mark.parametrize(("level", "count"), [("standard", 250), ("small", 120), ("tiny", 120)])
@pytest.mark.parametrize("split", ["train", "seen", "unseen"])
def test_solves_everything_within_the_budget(level: str, count: int, split: str) -> None:
    world = HouseholdWorld(HouseholdConfig(level=level, seed=1))
    env = world.make()
    for index in range(count):
        total, history = play(env, world.get_task(split, index), world.expert)
        assert total == 1.0, history


def test_only_says_what_is_admissible() -> None:
    world = HouseholdWorld()

    def checked(turn: Turn) -> str:
        action = world.expert(turn)
        assert action in turn.admissible
        return action

    for index in range(60):
        play(world.make(), world.get_task("unseen", index), checked)


def test_needs_neither_the_admissible_list_nor_a_memory() -> None:
    world = HouseholdWorld()

    def blind(turn: Turn) -> str:
        return HouseholdWorld().expert(Turn(turn.family, turn.goal, turn.observation, None, list(turn.history)))

    assert play(world.make(), "seen/4", blind) == play(world.make(), "seen/4", world.expert)


def test_takes_over_from_a_random_agent() -> None:
    world = HouseholdWorld(HouseholdConfig(max_steps=90))
    rng = random.Random(0)
    wins = 0
    for index in range(100):
        wins += play(
            world.make(),
            world.get_task("unseen", index),
            lambda turn: rng.choice(turn.admissible) if turn.step < 40 else world.expert(turn),
        )[0]
    assert wins == 100


def test_visits_no_place_twice_while_searching() -> None:
    world = HouseholdWorld()
    for index in range(100):
        _, history = play(world.make(), world.get_task("train", index), world.expert)
        search = [
            turn.action for turn in history[: next(i for i, t in enumerate(history) if t.action.startswith("take"))]
        ]
        assert len(search) == len(set(search))


@pytest.mark.parametrize("family", FAMILIES)
def test_reads_every_wording_of_a_task(family: str) -> None:
    request = TaskRequest(family, "mug", "desklamp" if family == "look" else "shelf")
    sentences = {phrase(request, variant) for variant in range(len(PHRASES[family]))}
    assert len(sentences) == len(PHRASES[family])
    assert all(read_request(sentence) == request for sentence in sentences)
    assert all(read_request(f"Your task is to: {sentence}") == request for sentence in sentences)


def test_says_so_when_it_cannot_read_the_task() -> None:
    turn = Turn("household", "make me happy", "You are in the middle of a room.", None, ())
    with pytest.raises(InputError, match="make me happy"):
        HouseholdWorld().expert(turn)
