"""A run that is killed by the system in the middle of an update, and what its folder is good for afterwards."""

import json
import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from counting_recipe import RECIPE

import worldline
from worldline.cli import main
from worldline.collect import CollectConfig, collect
from worldline.paw import update


def run(recipe: Path, out: Path, *flags: str, deadly: bool = False) -> int | None:
    """`worldline train` in a process of its own, no fork: the threads of this one are not in it; its exit code."""
    command = ["train", str(recipe), "--out", str(out), *flags]
    process = multiprocessing.get_context("spawn").Process(target=_train, args=(command, deadly))
    process.start()
    process.join()
    return process.exitcode


def _train(command: list[str], deadly: bool) -> None:
    if deadly:
        _kill_at_the_gradient(6)  # two an update: the second of update 3, before its weights are changed
    sys.exit(main(command))


def _kill_at_the_gradient(number: int) -> None:
    real, calls = update.gradient, []

    def deadly(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **named)

    update.gradient = deadly


def lines(out: Path) -> list[dict[str, Any]]:
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith(("seconds", "peak"))} for line in metrics]


@pytest.fixture(scope="module")
def recipe(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    path.write_text(json.dumps(RECIPE | {"model": str(start)}))  # JSON is YAML
    return path


@pytest.fixture(scope="module")
def whole(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    assert run(recipe, out) == 0
    return out


def test_killed_in_the_middle_of_an_update_and_resumed(recipe: Path, whole: Path, tmp_path: Path) -> None:
    killed = tmp_path / "run"
    assert run(recipe, killed, deadly=True) == -signal.SIGKILL
    assert [line["update"] for line in lines(killed)] == [0, 1, 2]
    assert run(recipe, killed, "--resume") == 0
    assert lines(killed) == lines(whole)


def test_a_checkpoint_plays_through_collect(whole: Path) -> None:
    settings = {"env": "counting:CountingWorld", "max_steps": 3, "max_new_tokens": 4, "device": "cpu", "split": "test"}
    for checkpoint in sorted((whole / "checkpoints").iterdir()):
        played = collect(CollectConfig.model_validate(settings | {"policy": f"hf:{checkpoint}", "episodes": 6}))
        assert played.summary()["episodes"] == 6
        assert played.tally.invalid < played.tally.steps


def test_the_run_folder_is_a_log_that_evaluate_takes(whole: Path) -> None:
    """Checkpoints can be ranked from the episodes that made them."""
    last = whole / "checkpoints" / "update-000004"
    result = worldline.evaluate(
        log=[whole], policy=[f"last=hf:{last}"], max_new_tokens=4, device="cpu", certificate=False, bootstrap=100
    )
    assert result.value("last", "dm").value is not None
