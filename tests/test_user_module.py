"""Code of the user's own is imported from the current folder, whichever flag names it."""

import os
import sys
from pathlib import Path

import pytest

from worldline import envs, policies
from worldline.ope.features import featuriser
from worldline.user_module import import_user_module

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
    assert import_user_module("beside").__file__ == str(tmp_path / "beside.py")
    with pytest.raises(ModuleNotFoundError, match="elsewhere"):
        import_user_module("elsewhere")


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
