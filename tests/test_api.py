"""The verbs from Python: the same settings, the same results as on the command line."""

import importlib
import inspect
import json
from pathlib import Path
from typing import Literal, Unpack, get_origin, get_type_hints

import pytest

import worldline
from worldline import api
from worldline.cli import main
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


@pytest.mark.parametrize(
    ("typed", "given", "model"),
    [
        (api.CompareSettings, {"log"}, "worldline.comparison:CompareConfig"),
        (api.CollectSettings, {"env", "policy"}, "worldline.collect:CollectConfig"),
        (api.SftSettings, {"source", "out"}, "worldline.sft:SftConfig"),
        (api.TrainSettings, {"env", "model", "out"}, "worldline.paw.recipe:TrainConfig"),
        (api.EvaluateSettings, set(), "worldline.evaluate:EvaluateConfig"),
        (api.FitSettingsOfLog, {"log", "out"}, "worldline.adwm.fit:FitConfig"),
        (api.PolicySettings, set(), "worldline.policies:PolicyConfig"),
    ],
)
def test_typed_settings_are_those_of_the_model(typed: type, given: set[str], model: str) -> None:
    """The names, and the words where a setting takes one of some."""
    module, _, name = model.partition(":")
    fields = getattr(importlib.import_module(module), name).model_fields
    hints = get_type_hints(typed)
    assert hints.keys() | given == fields.keys()
    for setting, hint in hints.items():
        if get_origin(hint) is Literal:
            assert hint == fields[setting].annotation, setting


def test_collect_and_report_are_verbs_and_modules(tmp_path: Path) -> None:
    done = worldline.collect("household", "expert", episodes=3, options={"level": "tiny"}, out=tmp_path / "log")
    assert done.summary()["episodes"] == 3
    assert "expert in household: 3 episodes, success 1.000" in repr(done)
    assert "<table>" in done._repr_html_()
    made = worldline.report(tmp_path / "log", tmp_path / "page.html")
    assert made.path.is_file() and "page.html" in made._repr_html_()
    from worldline.collect import CollectConfig  # the module is still one

    assert CollectConfig.model_fields
    with pytest.raises(InputError, match="--episodes"):
        worldline.collect("household", "expert", episodes=0)


def test_reading_takes_the_labels_that_the_verbs_print_and_refuses_others(tmp_path: Path) -> None:
    for epsilon in (0.2, 0.8):
        worldline.collect("household", "expert", episodes=2, epsilon=epsilon, options={"level": "tiny"}, out=tmp_path)
    assert [episode.epsilon for episode in worldline.read(tmp_path, policies=["expert@0.2"])] == [0.2, 0.2]
    assert len(list(worldline.read(tmp_path, policies="expert"))) == 4
    with pytest.raises(InputError, match=r"no episode has the policy 'zzz': there are expert@0\.2, expert@0\.8$"):
        worldline.read(tmp_path, policies=["zzz"])


def test_a_clone_from_python(tmp_path: Path) -> None:
    clone = worldline.sft(
        "household", tmp_path / "clone", episodes=4, epochs=1, options={"level": "tiny"}, context=256, vocabulary=300
    )
    assert Path(clone.summary()["model"]).is_dir() and "loss" in clone._repr_html_()


def test_names_from_a_log_are_no_markup(log: Path) -> None:
    comparison = worldline.compare(log).model_copy(update={"baseline": "<script>"})
    assert "<script>" not in comparison._repr_html_() and "&lt;script&gt;" in comparison._repr_html_()


def test_read_gives_every_episode_once(log: Path) -> None:
    episodes = list(worldline.read(log))
    assert len({episode.id for episode in episodes}) == 40
    assert len(list(worldline.read([log], policies=["expert"]))) == 20


def test_an_evaluation_says_and_shows_its_answer(log: Path) -> None:
    settings = {"options": {"level": "tiny"}, "estimators": ["naive", "wis"], "certificate": False}
    result = worldline.evaluate(log=log, policy=["expert", "random"], **settings)
    assert result.answer in repr(result) and "expert: naive 0." in repr(result)
    shown = result._repr_html_()
    assert "<table>" in shown and shown.count("<tr>") == 3
    renamed = result.model_copy(update={"policies": (result.policies[0].model_copy(update={"name": "<b>"}),)})
    assert "<b></td>" not in renamed._repr_html_() and "&lt;b&gt;" in renamed._repr_html_()
    with pytest.raises(InputError, match="--log"):
        worldline.evaluate(policy=["expert"])


def test_one_value_is_a_list_of_one(log: Path) -> None:
    settings = {"options": {"level": "tiny"}, "estimators": "naive", "certificate": False}
    one = worldline.evaluate(log=log, policy="expert", epsilon=0.3, **settings)
    many = worldline.evaluate(log=[log], policy=["expert"], epsilon=[0.3], **settings)
    assert one == many and [policy.label for policy in one.policies] == ["expert@0.3"]
    with pytest.raises(InputError, match="--policies: two are needed to compare"):
        worldline.compare(log, policies="random")


def test_a_wrong_first_argument_or_a_dotted_setting_is_told_in_one_line(log: Path) -> None:
    for name in ("candidates", "loggers"):
        with pytest.raises(InputError, match=f"{name}: takes policy objects by name, .*write log=...") as caught:
            worldline.evaluate(**{name: ["python-logs"]}, policy=["expert"])
        assert "\n" not in str(caught.value)
    dotted = {"update.learning_rate": 1e-5}
    with pytest.raises(InputError, match=r"'update.learning_rate': write update=\{'learning_rate': \.\.\.\}$"):
        worldline.train("household", "x", "y", **dotted)
    with pytest.raises(InputError, match=r"write options=\{'level': \{'size': \.\.\.\}\}$"):
        worldline.train("household", "x", "y", **{"options.level.size": 1})
    with pytest.raises(InputError, match=r"unknown setting 'update.lrr'"):
        worldline.train("household", "x", "y", update={"lrr": 1})


def test_every_public_name_is_there_and_typed() -> None:
    """No verb takes settings of any type: a type checker sees each by its name."""
    for name in set(worldline.__all__) - {"__version__"}:
        verb = getattr(api, name)
        assert callable(getattr(worldline, name)), name
        unpacked = [p for p in inspect.signature(verb).parameters.values() if p.kind is p.VAR_KEYWORD]
        assert all(get_origin(p.annotation) is Unpack for p in unpacked), name
