"""Training with each of its file system calls broken in turn: what is there is whole, and resuming gives the same."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from counting_recipe import RECIPE
from transformers import AutoConfig, AutoModelForCausalLM

import faults
from training_states import values
from worldline import files, store
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.types import Trajectory

SHORT = {
    "updates": 2,
    "groups": 1,
    "group_size": 2,
    "max_steps": 1,
    "rollout": {"max_new_tokens": 1, "device": "cpu"},
    "checkpoint_every": 1,
    "evaluation": {"every": 2, "episodes": 1},
    "update": {"mini_batch": 0, "kl": 0.0},
    "wm": "off",
    "resume": True,
}


def episodes(out: Path) -> dict[str, Trajectory]:
    return {episode.id: episode for episode in store.read(out)} if store.shards(out) else {}


def metrics(out: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in files.read_lines(out / "metrics.jsonl").whole]
    return [{k: v for k, v in row.items() if not k.startswith(("seconds", "peak"))} for row in rows]


def checkpoints(out: Path) -> dict[str, Any]:
    """The content of every file of the checkpoints."""
    return {
        name: values(out / name) if name.endswith("training_state.pt") else content
        for name, content in faults.snapshot(out).items()
        if name.startswith("checkpoints")
    }


@pytest.fixture(scope="module")
def model(start: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one layer, which knows nothing."""
    folder = shutil.copytree(start, tmp_path_factory.mktemp("model") / "model")
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(start, num_hidden_layers=1)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_broken_training_is_whole_and_resumes_to_the_same(model: Path, how: faults.How, tmp_path: Path) -> None:
    def work(out: Path) -> None:
        train(TrainConfig.model_validate({**RECIPE, "model": str(model), "out": out} | SHORT))

    whole = tmp_path / "whole"
    work(whole)
    made = checkpoints(whole)
    assert len(metrics(whole)) == 3
    broken = 0
    for state in faults.states_left(work, tmp_path, how):
        left = state.path
        for name, content in checkpoints(left).items():
            assert content == made.get(name, content), "only the newest checkpoint of the whole run has its state"
        assert episodes(left).items() <= episodes(whole).items()
        assert metrics(left) == metrics(whole)[: len(metrics(left))]
        work(left)
        assert {path.name for path in left.iterdir()} == {path.name for path in whole.iterdir()}
        assert checkpoints(left) == made
        assert episodes(left) == episodes(whole)
        assert store.count(left) == len(episodes(whole)), "no episode twice"
        assert metrics(left) == metrics(whole)
        broken += state.calls
    assert broken > 40
