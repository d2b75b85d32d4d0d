"""The folder of a run: nothing is lost that is not a run of the same kind, and nothing is left by a run that failed."""

import json
from pathlib import Path

import pytest

from worldline.adwm.fit import ADJUSTABLE, FitConfig
from worldline.cli import main
from worldline.run_folder import emptied, going_on
from worldline.sft import SftConfig
from worldline.types import InputError


def fitting(out: Path, **given: object) -> FitConfig:
    return FitConfig(log=(Path("log"),), out=out, **given)  # type: ignore[arg-type]


def asked(config: FitConfig) -> bool:
    how = {"resume": config.resume, "overwrite": config.overwrite}
    return going_on(config, config.out, "world model", **how, adjustable=ADJUSTABLE)


@pytest.mark.parametrize(
    "content",
    [
        {"data.parquet": "rows"},
        {"config.json": json.dumps({"architectures": ["LlamaForCausalLM"]})},
        {"config.json": "[]"},
        {"config.json": SftConfig(source="household", out=Path("x")).model_dump_json()},
    ],
)
@pytest.mark.parametrize("verb", ["sft household", "fit logs", "train household --model x"])
def test_what_is_no_such_run_is_never_replaced(content: dict[str, str], verb: str, tmp_path: Path) -> None:
    if verb.startswith("sft") and "source" in content.get("config.json", ""):
        pytest.skip("a cloning run may be replaced by another")
    for name, text in content.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert main([*verb.split(), "--out", str(tmp_path), "--overwrite"]) == 2
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == content


def test_a_run_goes_on_as_it_was_begun_or_is_replaced(tmp_path: Path) -> None:
    assert not asked(fitting(tmp_path / "new"))
    assert not asked(fitting(tmp_path)), "an empty folder is as good as none"
    begun = fitting(tmp_path, seed=1)
    (tmp_path / "config.json").write_text(begun.model_dump_json(exclude=ADJUSTABLE), encoding="utf-8")
    assert asked(begun.model_copy(update={"resume": True}))
    assert not asked(begun.model_copy(update={"overwrite": True}))
    with pytest.raises(InputError, match="--resume goes on with it, --overwrite starts anew"):
        asked(begun)
    with pytest.raises(InputError, match="was begun with another 'seed'"):
        asked(begun.model_copy(update={"resume": True, "seed": 2}))


def test_emptying_keeps_the_folder_and_what_links_point_to(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").write_text("kept", encoding="utf-8")
    run = tmp_path / "run"
    (run / "deep" / "er").mkdir(parents=True)
    (run / "link").symlink_to(tmp_path / "mine")
    assert list(emptied(run).iterdir()) == []
    assert (tmp_path / "mine" / "kept").is_file()


@pytest.mark.parametrize("words", ["sft houshold", "sft household --model no/where/at/all --episodes 1"])
def test_a_refused_clone_leaves_nothing(words: str, tmp_path: Path) -> None:
    assert main([*words.split(), "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()
