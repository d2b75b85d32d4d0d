"""The verbs from Python: the same settings, the same results as on the command line."""

import json
from pathlib import Path
from typing import get_type_hints

import pytest

import worldline
from worldline import api
from worldline.cli import main
from worldline.comparison import CompareConfig
from worldline.types import InputError


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    for policy in ("expert", "random"):
        words = ["collect", "household", "--options.level", "tiny", "--policy", policy, "--episodes", "20"]
        assert main([*words, "--out", str(folder), "--json"]) == 0
    return folder


def test_compare_gives_what_the_command_gives(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    comparison = worldline.compare(log, policies=["random", "expert"], by="split")
    capsys.readouterr()
    assert main(["compare", str(log), "--policies", "random", "expert", "--by", "split", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == comparison.as_dict()
    assert comparison.answer in repr(comparison)
    with pytest.raises(InputError, match="--metric"):
        worldline.compare([log], metric="colour")


def test_typed_settings_are_those_of_the_model() -> None:
    assert get_type_hints(api.CompareSettings).keys() | {"log"} == CompareConfig.model_fields.keys()


def test_read_gives_every_episode_once(log: Path) -> None:
    episodes = list(worldline.read(log))
    assert len({episode.id for episode in episodes}) == 40
    assert len(list(worldline.read([log], policies=["expert"]))) == 20
