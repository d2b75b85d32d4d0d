"""Worlds by name: those that load, and the one line for those that do not."""

from pathlib import Path

import pytest

from worldline.config import Config
from worldline.envs import WORLDS, _attribute, load, load_builtin
from worldline.types import InputError, World


@pytest.mark.parametrize("name", ["household", "shop", "searchqa"])
def test_embedded_worlds_load_without_data(name: str) -> None:
    world = load(name)
    assert isinstance(world, World)
    assert world.name == name
    assert world.make().reset(task=world.get_task(world.splits()[0], 0))[0]


def test_options_are_the_worlds_own_and_typos_get_a_suggestion() -> None:
    assert load("searchqa", options={"max_turns": 6}).max_steps == 6
    with pytest.raises(InputError, match=r"searchqa: unknown setting 'max_turn': did you mean 'max_turns'\?"):
        load("searchqa", options={"max_turn": 6})
    with pytest.raises(InputError, match="--options.max-turns"):
        load("searchqa", options={"max_turns": "many"})


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(InputError, match="unknown environment 'serchqa': did you mean 'searchqa'"):
        load("serchqa")


def test_a_file_of_ones_own_needs_the_class_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stairs.py").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("stairs", "stairs.py"):
        with pytest.raises(InputError, match=f"'{name}': a class in stairs.py is named as stairs:CLASS$"):
            load(name)
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(InputError, match=f"is named as stairs:CLASS, run from {tmp_path.name}$"):
        load(f"{tmp_path.name}/stairs.py")
    with pytest.raises(InputError, match="unknown environment"):
        load("x" * 400)  # no name of a file


@pytest.mark.parametrize("name", ["alfworld", "webshop"])
def test_missing_data_names_the_flag_and_what_it_holds(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} needs --data PATH: the folder"):
        load(name)
    with pytest.raises(InputError, match="nowhere: no such file or folder"):
        load(name, data=Path("nowhere"))


def test_a_generated_world_takes_no_data(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="household takes no --data"):
        load("household", data=tmp_path)


@pytest.mark.data
@pytest.mark.parametrize("name", ["alfworld", "webshop"])
def test_real_worlds_load_with_their_data_and_options(name: str, shared_data: Path) -> None:
    world = load(name, data=shared_data / name, options={"max_steps": 7})
    assert isinstance(world, World)
    assert (world.name, world.max_steps) == (name, 7)
    split = world.splits()[-1]
    assert world.make().reset(task=world.get_task(split, 0))[0]


def test_the_table_names_what_exists() -> None:
    for source in WORLDS.values():
        assert issubclass(_attribute(source.config), Config)
        assert callable(_attribute(source.world))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "gym:CartPole-v1",
            "names its environment 'gym:CartPole-v1', and data runs no code: give --env gym:CartPole-v1 if",
        ),
        ("os:abort; rm x", "give --env 'os:abort; rm x' if you trust it"),  # what is pasted into a shell stays one word
        ("\x1b[2J:x", r"environment '\x1b[2J:x'"),
        ("webarena", "names its environment 'webarena', which is not a built-in: --env NAME says which to use"),
        ("", "names its environment '', which is not a built-in"),
    ],
)
def test_a_name_out_of_data_may_only_be_a_builtin(name: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        load_builtin(name, source="the log")
    assert says in str(error.value)
    assert str(error.value).startswith("the log ")
    assert str(error.value).isprintable()


def test_a_builtin_named_by_data_takes_options_from_the_user() -> None:
    assert load_builtin("searchqa", options={"max_turns": 6}, source="the log").max_steps == 6
