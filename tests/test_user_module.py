"""Code of the user's own is imported from the current folder, whichever flag names it."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from worldline import envs, policies
from worldline.ope.features import featuriser
from worldline.types import InputError
from worldline.user_module import error_text, has_attribute, import_user_module, is_of_the_machine

SOURCE = """
from worldline.ope.features import HashedNgrams

def first(turn):
    return turn.admissible[0]

class Ngrams(HashedNgrams):
    pass

class Door:
    def reset(self, *, seed=None, options=None):
        return "a door", {"admissible": ("open", "wait")}

    def step(self, action):
        return "through", 1.0, True, False, {}
"""


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path as a console script has it: without the working directory."""
    (tmp_path / "beside.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", os.getcwd())])
    monkeypatch.delitem(sys.modules, "beside", raising=False)


@pytest.mark.usefixtures("_here")
def test_a_module_of_the_working_directory_is_imported(tmp_path: Path) -> None:
    assert import_user_module("beside", "beside:first").__file__ == str(tmp_path / "beside.py")
    with pytest.raises(ModuleNotFoundError, match="elsewhere"):
        import_user_module("elsewhere", "elsewhere:first")


@pytest.mark.usefixtures("_here")
def test_whether_there_is_such_code(tmp_path: Path) -> None:
    assert has_attribute("beside", "Door.reset", "--policy")
    for module, attribute in (("beside", "second"), ("beside.door", "first"), ("elsewhere", "first")):
        assert not has_attribute(module, attribute, "--policy")
    for module, attribute in (("openai", "gpt-5"), ("./beside", "first"), ("", "first"), ("beside", "")):
        assert not has_attribute(module, attribute, "--policy")
    (tmp_path / "needy.py").write_text("import elsewhere")
    with pytest.raises(InputError, match="--policy: importing it failed: .*elsewhere"):
        has_attribute("needy", "first", "--policy")


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize("flag", ["--policy", "--env", "--features"])
def test_every_flag_looks_there(flag: str) -> None:
    """Each alone: another flag's import would leave the folder on the path."""
    match flag:
        case "--policy":
            assert policies.load("beside:first").name == "beside:first"
        case "--env":
            assert envs.load("beside:Door").make().reset(seed=0)[0] == "a door"
        case _:
            assert featuriser("beside:Ngrams").actions(["open"]).shape[0] == 1


@pytest.mark.usefixtures("_here")
@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("class A(", "SyntaxError: '(' was never closed (failing_module.py, line 1)"),
        ("\nraise ValueError('at\\nimport')", "ValueError: at import (failing_module.py, line 2)"),
        ("import sys\nsys.exit('no display')", "SystemExit: no display (failing_module.py, line 2)"),
        ("import json\njson.loads('{')", "(failing_module.py, line 2)"),  # not the line of json
    ],
)
def test_a_module_that_fails_is_one_line_whichever_flag_names_it(source: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "failing_module.py").write_text(source)
    loaders: dict[str, Callable[[str], object]] = {"": envs.load, "policy": policies.load, "--features": featuriser}
    for flag, load in loaders.items():
        with pytest.raises(InputError) as caught:
            load("failing_module:A")
        text = str(caught.value)
        assert text.startswith(flag)
        assert "failing_module:A" in text
        assert "importing it failed: " in text
        assert text.endswith(line)


def test_an_error_is_told_with_the_last_line_of_the_users_code() -> None:
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")  # raised in Python's own file
    file, _, number = error_text(caught.value).rstrip(")").rpartition(" (")[2].partition(", line ")
    assert Path(file).resolve() == Path(__file__)
    assert "raised in Python's own file" in Path(__file__).read_text().splitlines()[int(number) - 1]
    assert error_text(ValueError("never\nraised")) == "ValueError: never raised"


def test_memory_and_disks_are_no_fault_of_the_code() -> None:
    class OutOfMemoryError(RuntimeError):
        """Named as torch's."""

    assert all(is_of_the_machine(error) for error in (MemoryError(), OSError(28, "no space"), OutOfMemoryError()))
    assert not any(is_of_the_machine(error) for error in (ValueError(), KeyError("goal"), RuntimeError()))
