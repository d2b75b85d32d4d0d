"""Games of TextArena behind the text protocol, against the games themselves."""

import pytest

from worldline.envs import load
from worldline.types import Environment, InputError, World

textarena = pytest.importorskip("textarena", reason="needs the extra 'textarena'")
GAME = "TowerOfHanoi-v0"
SOLUTION = ["[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]"]


def test_an_episode_is_that_of_the_game() -> None:
    world = load(f"textarena:{GAME}", options={"tasks": 5})
    assert isinstance(world, World) and isinstance(world.make(), Environment)
    environment = world.make()
    opening, info = environment.reset(task="3")
    assert "Tower of Hanoi" in opening and info["task_id"] == "3"
    for move in SOLUTION[:-1]:
        observation, reward, terminated, _, info = environment.step(move)
        assert (reward, terminated) == (0.0, False)
        assert "You have to move the disks" not in observation  # only what is new
    observation, reward, terminated, _, info = environment.step(SOLUTION[-1])
    assert (reward, terminated, info["won"]) == (1.0, True, True)


def test_episodes_played_at_once_do_not_change_each_other() -> None:
    world = load("textarena:GuessTheNumber-v0")

    def opened(task: str) -> Environment:
        environment = world.make()
        environment.reset(task=task)
        return environment

    alone = [opened("4").step(f"[{guess}]")[0] for guess in (3, 9, 15)]
    other, together = opened("5"), []
    for guess in (3, 9, 15):
        mine = opened("4")
        other.step("[7]")
        together.append(mine.step(f"[{guess}]")[0])
    assert together == alone


def test_what_cannot_be_played_is_refused() -> None:
    with pytest.raises(InputError, match="textarena has no game 'TowerOfHanoy-v0': did you mean"):
        load("textarena:TowerOfHanoy-v0")
    with pytest.raises(InputError, match="cannot be played alone and offline"):
        load("textarena:Chess-v0")
    with pytest.raises(InputError, match="has 1000 tasks"):
        load(f"textarena:{GAME}").get_task("all", 1000)
