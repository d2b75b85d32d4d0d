"""Two processes with the environment of `accelerate launch` and FSDP2 do what one does; what cannot work is refused."""

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.commands import launch
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DistributedType
from accelerate.utils.launch import prepare_multi_gpu_env
from counting_recipe import RECIPE
from safetensors import safe_open
from sharded_runs import one_of_two
from start_policy import save_start
from torch import multiprocessing
from transformers import AutoModelForCausalLM

from worldline.paw import processes
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.types import InputError

TESTS = Path(__file__).parents[1]
LAUNCH = ("--num_processes=2", "--num_machines=1", "--use_fsdp", "--fsdp_version=2")
LAST = Path("checkpoints", "update-000004")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four updates of GRPO + PaW: by `one` process, by `two`, by one and then two, by two and then one."""
    folder = tmp_path_factory.mktemp("runs")
    recipe = RECIPE | {
        "model": str(save_start(folder / "start", tied=True)),
        "checkpoint_every": 2,
        "evaluation": {"every": 0},
        "rollout": {"max_new_tokens": 4},
        "update": {"lr": 1e-3, "mini_batch": 16, "batch_tokens": 100},
    }
    (folder / "recipe.json").write_text(json.dumps(recipe))

    def alone(out: str, updates: int, resume: bool) -> None:
        train(TrainConfig.model_validate(recipe | {"out": folder / out, "updates": updates, "resume": resume}))

    alone("one", 2, False)
    shutil.copytree(folder / "one", folder / "one-two")
    alone("one", 4, True)
    _launch(folder)
    alone("two-one", 4, True)
    return folder


def _launch(folder: Path) -> None:
    """Two forks with the environment that `accelerate launch` gives: they need not import everything again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "default_config_file", str(folder / "none.yaml"))
        given = launch.launch_command_parser().parse_args([*LAUNCH, f"--main_process_port={port}", "sharded_runs.py"])
        environment = prepare_multi_gpu_env(launch._validate_launch_command(given)[0])
    places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "CUDA_VISIBLE_DEVICES": ""}
    multiprocessing.start_processes(one_of_two, (environment | places, folder), nprocs=2, start_method="fork")


@pytest.mark.parametrize("other", ["two", "one-two", "two-one"])
def test_two_sharded_processes_are_one_and_either_goes_on_with_the_others_run(runs: Path, other: str) -> None:
    """Losses, divergence from the reference, weights: all within 1e-5 after four updates."""
    one, two = ((runs / name / "metrics.jsonl").read_text().splitlines() for name in ("one", other))
    assert len(one) == len(two) == 4
    for left, right in zip(map(json.loads, one), map(json.loads, two), strict=True):
        assert {name for name in left if not name.startswith("seconds")} <= right.keys()
        for name in left:
            if not name.startswith(("seconds", "peak")):
                assert right[name] == pytest.approx(left[name], abs=1e-5), name
    trained, same = (AutoModelForCausalLM.from_pretrained(runs / name / LAST) for name in ("one", other))
    start = AutoModelForCausalLM.from_pretrained(runs / "start")
    assert same.lm_head.weight is same.model.embed_tokens.weight
    for before, left, right in zip(*(model.parameters() for model in (start, trained, same)), strict=True):
        assert (left - before).abs().max() > 1e-3, "it has learnt"
        torch.testing.assert_close(right, left, rtol=0, atol=1e-5)


def test_each_process_holds_and_writes_half(runs: Path) -> None:
    environment = json.loads((runs / "two" / "env.json").read_text())
    assert (environment["processes"], environment["sharded"]) == (2, True)
    halves = sorted((runs / "two" / LAST / "training_state").glob("*.safetensors"))
    assert len(halves) == 2
    shapes: list[dict[str, list[int]]] = []
    for half in halves:
        with safe_open(half, framework="pt") as file:
            shapes.append({name: file.get_slice(name).get_shape() for name in file.keys()})  # noqa: SIM118 - no dict
    start = AutoModelForCausalLM.from_pretrained(runs / "start")
    for name, weight in start.named_parameters():
        for key in (f"weights.lm.{name}", f"optimizer.state.lm.{name}.exp_avg"):
            rows = [shape[key][0] for shape in shapes]
            assert sum(rows) == len(weight)
            assert abs(rows[0] - rows[1]) <= 1
    assert not any("lm_head" in name for shape in shapes for name in shape), "a tied weight is written once"


@pytest.fixture
def alone(fresh_accelerator: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The first of as many processes as WORLD_SIZE says, and the only one that is there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    yield monkeypatch
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_processes_that_do_not_see_one_another_are_refused() -> None:
    with pytest.raises(InputError, match="--rollout.device cuda: 2 processes were launched and do not see one another"):
        processes._check_all_joined("cuda", joined=1, launched=2)


def test_the_first_fsdp_is_refused(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("ACCELERATE_USE_FSDP", "true")
    alone.setenv("FSDP_VERSION", "1")
    with pytest.raises(InputError, match="launch with --fsdp_version 2"):
        processes.join("cpu", bf16=False)


def test_half_precision_keeps_sums_and_log_probabilities_whole(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("ACCELERATE_USE_FSDP", "true")
    alone.setenv("FSDP_VERSION", "2")
    accelerator = processes.join("cpu", bf16=True)
    policy = accelerator.state.fsdp_plugin.mixed_precision_policy
    assert processes.is_sharded(accelerator)
    assert (policy.param_dtype, policy.reduce_dtype, policy.output_dtype) == (torch.bfloat16, torch.float32, None)


@pytest.mark.parametrize("name", ["ddp", "fsdp2", "two-nodes"])
def test_accelerate_reads_the_configurations(name: str) -> None:
    config = load_config_from_file(str(TESTS.parent / "configs" / f"{name}.yaml"))
    assert config.num_processes == 8 * config.num_machines
    sharded = config.distributed_type == DistributedType.FSDP
    assert sharded == (name != "ddp")
    assert config.fsdp_config.get("fsdp_version") == (2 if sharded else None)


def test_an_engine_that_steps_by_itself_is_refused() -> None:
    deepspeed: Any = SimpleNamespace(distributed_type=DistributedType.DEEPSPEED)
    with pytest.raises(InputError, match="DEEPSPEED steps the optimizer by itself.*--use_fsdp --fsdp_version 2"):
        processes._check(deepspeed)
