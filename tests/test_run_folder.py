"""The folder of a run: nothing is lost that is not a run of the same kind, and nothing is left by a run that failed."""

import json
import shutil
from pathlib import Path

import pytest
from pydantic import BaseModel

import faults
from worldline import files
from worldline.adwm.fit import ADJUSTABLE, FitConfig
from worldline.cli import main
from worldline.paw.recipe import TrainConfig
from worldline.run_folder import KINDS, Run
from worldline.sft import SftConfig
from worldline.types import InputError


def fitting(out: Path, inputs: dict[str, str] | None = None, **given: object) -> Run:
    config = FitConfig(log=(Path("log"),), out=out, **given)
    return Run(config, "world model", ADJUSTABLE, {"log": "1"} if inputs is None else inputs)


def begin(out: Path, **given: object) -> None:
    with fitting(out, **given).opened():  # type: ignore[arg-type]  # settings of several types
        (out / "model").mkdir()


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


def test_a_run_of_another_kind_is_called_what_it_is(tmp_path: Path) -> None:
    configs = {
        "cloning run": SftConfig(source="household", out=tmp_path),
        "training run": TrainConfig(env="household", model="m", out=tmp_path),
        "world model": FitConfig(log=(Path("log"),), out=tmp_path),
    }
    assert configs.keys() == KINDS.keys()
    for kind, config in configs.items():
        (tmp_path / "config.json").write_text(config.model_dump_json(), encoding="utf-8")
        for other in configs.keys() - {kind}:
            with pytest.raises(InputError, match=f"holds a {kind}, and no {other}: name another folder"):
                Run(configs[other], other, ADJUSTABLE, {}).goes_on()


def test_a_run_goes_on_as_it_was_begun_or_is_replaced(tmp_path: Path) -> None:
    assert not fitting(tmp_path / "new").goes_on()
    assert not fitting(tmp_path).goes_on(), "an empty folder is as good as none"
    begin(tmp_path, seed=1)
    assert fitting(tmp_path, seed=1, resume=True).goes_on()
    assert not fitting(tmp_path, seed=1, overwrite=True).goes_on()
    with pytest.raises(InputError, match="--resume goes on with it, --overwrite starts anew"):
        fitting(tmp_path, seed=1).goes_on()
    with pytest.raises(InputError, match="was begun with another 'seed'"):
        fitting(tmp_path, seed=2, resume=True).goes_on()


class Sections(BaseModel):
    """Settings in sections, as those of a training run."""

    out: Path
    resume: bool = True
    overwrite: bool = False
    playing: dict[str, float] = {"temperature": 1.0, "memory": 4.0}


@pytest.mark.parametrize(
    ("playing", "changed"),
    [
        ({"temperature": 1.0, "memory": 2.0}, None),
        ({"temperature": 0.5, "memory": 4.0}, "playing.temperature"),
        ({"memory": 4.0}, "playing.temperature"),
        ({"temperature": 1.0, "memory": 4.0, "more": 1.0}, "playing.more"),
    ],
)
def test_one_setting_of_a_section_may_change(playing: dict[str, float], changed: str | None, tmp_path: Path) -> None:
    with Run(Sections(out=tmp_path), "run", {"playing.memory"}, {}).opened():
        (tmp_path / "model").mkdir()
    now = Run(Sections(out=tmp_path, playing=playing), "run", {"playing.memory"}, {})
    if changed is None:
        assert now.goes_on()
    else:
        with pytest.raises(InputError, match=f"was begun with another '{changed}'"):
            now.goes_on()
    assert Run(Sections(out=tmp_path, playing=playing), "run", {"playing"}, {}).goes_on(), "or the whole section"


@pytest.mark.parametrize("inputs", [{"log": "2"}, {}, {"log": "1", "model": "1"}])
def test_a_run_does_not_go_on_with_other_inputs(inputs: dict[str, str], tmp_path: Path) -> None:
    begin(tmp_path)
    with pytest.raises(InputError, match=r"(log|model): has changed since the world model in .* began: .*--overwrite"):
        fitting(tmp_path, inputs, resume=True).goes_on()
    with fitting(tmp_path, inputs, overwrite=True).opened() as goes_on:
        assert not goes_on
        assert not (tmp_path / "model").exists()


def test_emptying_keeps_the_folder_and_what_links_point_to(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").write_text("kept", encoding="utf-8")
    run = tmp_path / "run"
    begin(run)
    (run / "link").symlink_to(tmp_path / "mine")
    with fitting(run, overwrite=True).opened():
        assert {path.name for path in run.iterdir()} == {"config.json", "inputs.json", ".run.lock"}
    assert (tmp_path / "mine" / "kept").is_file()


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_run_that_could_not_begin_begins_again(how: faults.How, tmp_path: Path) -> None:
    def work() -> None:
        with fitting(tmp_path / "run", resume=True).opened() as goes_on:
            assert not goes_on

    count = faults.points(work)
    assert count == 9  # the lock, two files
    for number in range(count):
        shutil.rmtree(tmp_path / "run")
        assert faults.broken(work, number, how) != 0
        if number < count - 1:  # at the last point all was there
            work()


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_run_that_is_being_replaced_is_the_old_or_the_new_or_can_only_be_replaced(
    how: faults.How, tmp_path: Path
) -> None:
    def replace() -> None:
        with fitting(tmp_path / "run", seed=2, overwrite=True).opened():
            pass

    begin(tmp_path / "run", seed=1)
    count = faults.points(replace)
    assert count == 11  # the lock, two things deleted, two files
    outcomes = set()
    for number in range(count):
        shutil.rmtree(tmp_path / "run")
        begin(tmp_path / "run", seed=1)
        assert faults.broken(replace, number, how) != 0
        for seed in (1, 2):
            try:
                goes_on = fitting(tmp_path / "run", seed=seed, resume=True).goes_on()
            except InputError as refusal:
                outcomes.add((seed, str(refusal).partition(": ")[2]))
            else:
                outcomes.add((seed, "goes on" if goes_on else "begins"))
                assert (tmp_path / "run" / "model").is_dir() == (goes_on and seed == 1), "never half of the old run"
        replace()
    half = "has no inputs.json: this world model cannot go on, --overwrite starts anew"
    other = "was begun with another 'seed'; resume with the same settings"
    wanted = {(1, "goes on"), (1, half), (1, "begins"), (1, other), (2, other), (2, "begins"), (2, "goes on")}
    assert outcomes == wanted


def test_a_folder_is_held_by_one_process(tmp_path: Path) -> None:
    other = fitting(tmp_path, resume=True)
    taken = pytest.raises(InputError, match="another process is at work on this run")
    with fitting(tmp_path).opened(), taken, other.opened():
        pass


def test_a_digest_is_of_names_and_content(tmp_path: Path) -> None:
    def digest(content: dict[str, str]) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        for name, text in content.items():
            (folder / name).write_text(text)
        return files.digest(folder.iterdir())

    whole = digest({"a": "1", "b": "2"})
    assert whole == digest({"b": "2", "a": "1"}), "the folder does not count, nor the order"
    assert len({whole, digest({"a": "1"}), digest({"a": "2", "b": "1"}), digest({"a": "1", "c": "2"})}) == 4


@pytest.mark.parametrize("words", ["sft houshold", "sft household --model no/where/at/all --episodes 1"])
def test_a_refused_clone_leaves_nothing(words: str, tmp_path: Path) -> None:
    assert main([*words.split(), "--out", str(tmp_path / "run")]) == 2
    assert not (tmp_path / "run").exists()
