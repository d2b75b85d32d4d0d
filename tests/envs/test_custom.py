"""User code by `module:attr`: worlds, environments, factories, and the errors for anything else."""

import sys
from pathlib import Path
from typing import Any

import pytest

from worldline.envs import load
from worldline.types import Environment, InputError, World, lowest_return

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

class NeedsKey(Countdown):
    def __init__(self): raise ValueError("need a key")

class Miscalls(Countdown):
    def __init__(self): len(3)

class Exits(Countdown):
    def __init__(self): raise SystemExit(3)

class Wavers(Countdown):
    full = False
    def __init__(self):
        super().__init__()
        if self.full: raise ValueError("out of sockets")

class NoTasks(Countdown): tasks = ()
class OneWord(Countdown): tasks = "abc"
class Method(Countdown):
    def tasks(self): return ["a"]
class NoSteps(Countdown): max_steps = 0
class LessSteps(Countdown): max_steps = -5
class SomeSteps(Countdown): max_steps = "some"
class Boundless(Countdown): max_return = float("inf")
class Bottomless(Countdown): min_return = "low"
class Indebted(Countdown): min_return = -3
class Costly(Countdown): max_return = 0

class Mute(Countdown):
    def expert(self, turn): return None
class Deaf(Countdown):
    def expert(self): return "down"

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
        ("my_worlds.py:Countdown", "my_worlds.py:Countdown: give my_worlds:Countdown, a module and not its file"),
        ("no/where.py:Countdown", "no/where.py:Countdown: give where:Countdown, .* in its folder"),
        ("my_worlds:number", "is an int"),
        ("my_worlds:Broken", "without step"),
        ("my_worlds:", "module:attr"),
        ("my_worlds:NeedsKey", r"NeedsKey: making it failed: ValueError: need a key \(.*my_worlds.py, line \d+\)$"),
        (
            "my_worlds:Miscalls",
            r"making it failed: TypeError: object of type 'int' has no len\(\) \(.*my_worlds.py, line",
        ),
        ("my_worlds:Exits", "making it failed: SystemExit: 3"),
        ("my_worlds:NoTasks", "my_worlds:NoTasks.tasks is empty: name a task, or leave"),
        ("my_worlds:OneWord", "my_worlds:OneWord.tasks is a str: it must be a list of the tasks' names"),
        ("my_worlds:Method", "my_worlds:Method.tasks is a method: it must be a list of the tasks' names"),
        ("my_worlds:NoSteps", "NoSteps.max_steps is 0: it must be a whole number, 1 or more"),
        ("my_worlds:LessSteps", "LessSteps.max_steps is -5: it must"),
        ("my_worlds:SomeSteps", "SomeSteps.max_steps is 'some': it must"),
        ("my_worlds:Bottomless", "Bottomless.min_return is 'low': it must be a finite number"),
        ("my_worlds:Boundless", "Boundless.max_return is inf: it must be a finite number"),
    ],
)
def test_one_clear_line(module: str, path: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        load(path)


@pytest.mark.parametrize(("attribute", "lowest"), [("Indebted", -3.0), ("Countdown", -1.0), ("Costly", None)])
def test_the_worst_return_is_declared_or_mirrors_the_best(module: str, attribute: str, lowest: float | None) -> None:
    assert lowest_return(load(f"{module}:{attribute}")) == lowest
    assert lowest_return(load(f"{module}:land")) == -1.0, "a World without `min_return`"
    assert lowest_return(load("household")) == 0.0


def test_wrong_options_are_bad_input(module: str) -> None:
    with pytest.raises(InputError, match="unexpected keyword argument 'begin'"):
        load(f"{module}:Countdown", options={"begin": 4})


def test_an_environment_that_cannot_be_made_in_the_midst_of_work_is_no_bad_input(module: str) -> None:
    world = load(f"{module}:Wavers")
    sys.modules[module].Wavers.full = True
    with pytest.raises(ValueError, match="out of sockets"):
        world.make()


@pytest.mark.parametrize(
    ("attribute", "line"),
    [
        ("Mute", "Mute.expert returned None: it must return the action as text"),
        ("Deaf", r"Deaf.expert must be `def expert\(self, turn\)`: .*takes 1 positional argument"),
    ],
)
def test_what_an_expert_must_be(module: str, attribute: str, line: str) -> None:
    with pytest.raises(InputError, match=line):
        load(f"{module}:{attribute}").expert(None)  # type: ignore[arg-type]  # these look at no turn
