"""A real Gymnasium environment behind the text protocol."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from worldline.cli import main
from worldline.envs import load
from worldline.types import Environment, InputError, World

gymnasium = pytest.importorskip("gymnasium", reason="needs the extra 'gymnasium'")

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789 "


class Guess(gymnasium.Env):  # type: ignore[misc, name-defined]  # gymnasium is skipped by mypy
    """Guess a number from 0 to 9 by 'higher' and 'lower'."""

    observation_space = gymnasium.spaces.Text(40, charset=CHARACTERS)
    action_space = gymnasium.spaces.Text(10, charset=CHARACTERS)

    def __init__(self, top: int = 9) -> None:
        self.top = top

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.secret = int(self.np_random.integers(0, self.top + 1))
        return "guess", {"admissible_commands": [str(number) for number in range(self.top + 1)], "goal": "find it"}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        won = action == str(self.secret)
        hint = "yes" if won else "higher" if action < str(self.secret) else "lower"
        return hint, float(won), won, False, {"is_success": won}


class Pixels(Guess):
    observation_space = gymnasium.spaces.Box(0, 1, (3,))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    gymnasium.register("Guess-v0", entry_point=Guess, max_episode_steps=12)
    gymnasium.register("Pixels-v0", entry_point=Pixels)
    yield
    del gymnasium.registry["Guess-v0"], gymnasium.registry["Pixels-v0"]


def test_episodes_are_those_of_the_environment_with_tasks_as_seeds() -> None:
    world = load("gym:Guess-v0", options={"tasks": 50})
    assert isinstance(world, World)
    assert isinstance(world.make(), Environment)
    assert (world.max_steps, world.num_tasks("all"), world.get_task("all", 7)) == (12, 50, "7")
    for task in ("0", "7", "31"):
        reference = Guess()
        reference.reset(seed=int(task))
        environment = world.make()
        observation, info = environment.reset(task=task)
        assert observation == "guess"
        assert (info["goal"], info["task_id"], list(info["admissible"] or ())[:2]) == ("find it", task, ["0", "1"])
        for guess in ("5", str(reference.secret)):
            observation, reward, terminated, _, info = environment.step(guess)
            assert (observation, reward, terminated) == reference.step(guess)[:3]
        assert info["won"] is True


def test_the_time_limit_truncates_and_a_clone_is_independent() -> None:
    environment = load("gym:Guess-v0", options={"kwargs": {"top": 8}}).make()
    _, info = environment.reset(task="1")
    assert len(info["admissible"] or ()) == 9
    truncated = [environment.step("x")[3] for _ in range(11)]
    copy = environment.clone()
    assert environment.step("x")[3] is True
    assert copy.step("x")[3] is True
    assert not any(truncated)


def test_a_gymnasium_class_by_its_path() -> None:
    world = load(f"{__name__}:Guess", options={"top": 3})
    assert len(world.make().reset(task="0")[1]["admissible"] or ()) == 4


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gym:Pixels-v0", "the observation space is Box"),
        ("gym:NoSuch-v3", "NoSuch"),
        ("gym:no_such_module:Maze-v0", "no_such_module"),
    ],
)
def test_one_clear_line(name: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        load(name)


def test_an_id_may_name_the_module_that_registers_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import gymnasium\n"
        "from gymnasium.spaces import Text\n"
        "class Echo(gymnasium.Env):\n"
        "    observation_space = action_space = Text(40)\n"
        "    def reset(self, *, seed=None, options=None): return 'hello', {}\n"
        "    def step(self, action): return action, 1.0, True, False, {}\n"
        "gymnasium.register('Echo-v0', entry_point=Echo)\n"
    )
    (tmp_path / "echo_games.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    world = load("gym:echo_games:Echo-v0")
    environment = world.make()
    assert environment.reset(task="3")[0] == "hello"
    assert environment.step("hey")[:3] == ("hey", 1.0, True)
    with pytest.raises(InputError, match="gym:no_such_games:Echo-v0: no module named 'no_such_games'"):
        load("gym:no_such_games:Echo-v0")
    del gymnasium.registry["Echo-v0"]


def test_success_is_not_known_where_the_environment_never_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    class Silent(Guess):
        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return (*super().step(action)[:4], {"admissible_commands": ["1", "2"]})

    gymnasium.register("Silent-v0", entry_point=Silent, max_episode_steps=3)
    assert main("collect gym:Silent-v0 --policy random --episodes 4 --json".split()) == 0
    assert json.loads(capsys.readouterr().out)["success"] is None
    assert main("collect gym:Silent-v0 --policy random --episodes 4".split()) == 0
    assert "unknown" in capsys.readouterr().out
    del gymnasium.registry["Silent-v0"]
