"""User code by `module:attr`: worlds, environments, factories, and the errors for anything else."""

from pathlib import Path
from typing import Any

import pytest

from worldline.envs import load
from worldline.envs.custom import CustomWorld
from worldline.types import Environment, InputError, World

SOURCE = '''
class Countdown:
    """Says a number; 'down' lowers it; at 0 the episode is won."""

    max_steps = 9

    def __init__(self, start=3):
        self.start = start

    def reset(self, *, seed=None, task=None):
        self.left = self.start + (seed or 0) % 2
        return str(self.left), {"admissible": ["down", "wait"], "goal": "reach 0"}

    def step(self, action):
        self.left -= action == "down"
        won = self.left == 0
        return str(self.left), float(won), won, False, {"won": won, "admissible": ["down", "wait"]}

class Named(Countdown):
    tasks = ("easy", "hard")

    def reset(self, *, seed=None, task=None):
        self.left = {"easy": 1, "hard": 5}[task]
        return str(self.left), {"task_id": task}

    def expert(self, turn):
        return "down"

def factory(start=3):
    return Countdown(start)

class Broken:
    def reset(self): ...

class Land:
    name, version, family, max_steps, max_return = "land", "1", "generic", 5, 1.0
    def __init__(self, data=None): self.data = data
    def splits(self): return ("all",)
    def num_tasks(self, split): return 1
    def get_task(self, split, index): return "only"
    def make(self): return Countdown()
    def expert(self, turn): return "down"

land = Land()
number = 7
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_worlds.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return "my_worlds"


def finish(world: World, task: str) -> tuple[int, float]:
    environment = world.make()
    observation, _ = environment.reset(task=task)
    reward, done, steps = 0.0, False, 0
    while not done:
        _, reward, done, _, _ = environment.step("down")
        steps += 1
    assert observation == str(steps)
    return steps, reward


@pytest.mark.parametrize("attribute", ["Countdown", "factory"])
def test_an_environment_becomes_a_world_of_seeds(module: str, attribute: str) -> None:
    world = load(f"{module}:{attribute}", options={"start": 4})
    assert isinstance(world, World)
    assert isinstance(world.make(), Environment)
    assert world.splits() == ("all",)
    assert world.max_steps == 9
    assert finish(world, world.get_task("all", 0)) == (4, 1.0)
    assert finish(world, world.get_task("all", 1)) == (5, 1.0)
    assert world.make().reset(task="1")[1]["task_id"] == "1"
    with pytest.raises(InputError, match="no expert"):
        world.expert(None)  # type: ignore[arg-type]  # there is no expert to look at it


def test_tasks_and_expert_of_its_own(module: str) -> None:
    world = load(f"{module}:Named")
    assert [world.get_task("all", index) for index in range(world.num_tasks("all"))] == ["easy", "hard"]
    assert finish(world, "hard") == (5, 1.0)
    assert world.expert(None) == "down"  # type: ignore[arg-type]  # this expert looks at no turn


def test_a_copy_goes_its_own_way(module: str) -> None:
    environment = load(f"{module}:Countdown").make()
    environment.reset(task="0")
    copy = environment.clone()
    copy.step("down")
    assert environment.step("wait")[0] == "3"
    assert copy.step("wait")[0] == "2"


def test_a_world_is_taken_as_it_is_and_gets_the_data(module: str, tmp_path: Path) -> None:
    assert load(f"{module}:land").name == "land"
    made: Any = load(f"{module}:Land", data=tmp_path)
    assert made.data == tmp_path
    with pytest.raises(InputError, match="ready-made"):
        load(f"{module}:land", options={"size": 3})


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("my_worlds:Countdwn", "has no 'Countdwn': did you mean 'Countdown'"),
        ("my_worlds:Q", r"has no 'Q': choose from [A-Z][A-Za-z, ]*Countdown[A-Za-z, ]*land[A-Za-z, ]*$"),  # no dunders
        (
            "no_such_module:Thing",
            "no module named 'no_such_module' is installed, nor is no_such_module.py in this folder: run from",
        ),
        ("my_worlds:number", "is an int"),
        ("my_worlds:Broken", "without step"),
        ("my_worlds:", "module:attr"),
    ],
)
def test_one_clear_line(module: str, path: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        load(path)


def test_wrong_options_are_bad_input(module: str) -> None:
    with pytest.raises(InputError, match="unexpected keyword argument 'begin'"):
        load(f"{module}:Countdown", options={"begin": 4})


@pytest.mark.parametrize(
    ("opening", "answer", "line"),
    [
        ("text", None, "Shapes.reset must return (observation, info), it returned a str"),
        (
            ("text", {}),
            ("a", 1.0, True),
            "Shapes.step must return (observation, reward, terminated, truncated, info)",
        ),
        (("text", {}), (7, 1.0, True, False, {}), "Shapes.step returned an int as observation: it must be text"),
        (("text", {}), ("a", "much", True, False, {}), "Shapes.step returned the reward 'much': no number"),
        (("text", {}), ("a", 1.0, True, False, None), "Shapes.step returned None as info: it must be a dict"),
    ],
)
def test_wrong_shapes_are_told_in_the_environments_own_words(opening: Any, answer: Any, line: str) -> None:
    class Shapes:
        def reset(self, *, seed: int | None = None) -> Any:
            return opening

        def step(self, action: str) -> Any:
            return answer

    world = CustomWorld("mine:Shapes", Shapes)  # type: ignore[arg-type]  # shapes that no environment has
    environment = world.make()
    with pytest.raises(InputError) as caught:
        environment.reset(task="0")
        environment.step("x")
    assert line in str(caught.value)
