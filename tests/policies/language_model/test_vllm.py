"""`vllm:` against `hf:` through vLLM itself: WORLDLINE_VLLM names its command (`vllm_cpu.sh` installs one for a CPU).

Takes a minute or two, most of it for vLLM to start.
"""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from served_equality import QUICK, assert_equal, pair, save_model

from worldline.policies import PolicyConfig
from worldline.policies.language_model.completions import CompletionServer, UnavailableError
from worldline.policies.language_model.hf import from_model
from worldline.policies.language_model.served import from_server
from worldline.types import Turn

Make = Callable[..., Turn]
COMMAND = os.environ.get("WORLDLINE_VLLM", "")
FLAGS = (
    "--dtype float32 --logprobs-mode processed_logprobs --max-logprobs -1 --enable-lora --max-lora-rank 16 "
    "--max-model-len 512 --enforce-eager --no-enable-chunked-prefill"
)
SECONDS = 300

pytestmark = pytest.mark.skipif(not COMMAND, reason="needs vLLM: set WORLDLINE_VLLM to its command (vllm_cpu.sh)")


@dataclass
class Served:
    folder: Path
    url: str


@pytest.fixture(scope="module")
def served(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = save_model(tmp_path_factory.mktemp("served"), tokenizer)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [COMMAND, "serve", str(folder), "--host", "127.0.0.1", "--port", str(port), *FLAGS.split()]
    log = folder / "vllm.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, env=os.environ | settings, stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}/v1"
    try:
        _await(folder, url, process, log)
        yield Served(folder, url)
    finally:
        process.terminate()
        process.wait(60)


def _await(folder: Path, url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    server = CompletionServer(str(folder), url, PolicyConfig(**QUICK))
    for _ in range(SECONDS):
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            server.following([[5, 6]], 1.0)
            return
        except UnavailableError:
            time.sleep(1)
    raise AssertionError(log.read_text()[-3000:])


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0, 1.7])
@pytest.mark.parametrize("mode", ["generate", "choose"])
def test_equals_hf(served: Served, make_turn: Make, mode: str, temperature: float) -> None:
    turns = [make_turn(steps=steps, seed=seed) for steps, seed in ((0, 1), (2, 2), (2, 3), (3, 4))]
    assert_equal(served.folder, served.url, turns, mode, temperature)


def test_a_sample_follows_from_the_turns_seed(served: Served, make_turn: Make) -> None:
    turns = [make_turn(seed=seed) for seed in range(6)]
    policy = pair(served.folder, served.url)[1]
    first, again = policy.act(turns), policy.act(turns)
    assert [decision.token_ids for decision in first] == [decision.token_ids for decision in again]
    assert len({decision.token_ids for decision in first}) > 1


def test_an_adapter_is_loaded_played_with_and_unloaded(served: Served, make_turn: Make, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    local = pair(served.folder, served.url)[0]
    torch.manual_seed(0)
    adapted = get_peft_model(local.model, LoraConfig(r=4, lora_alpha=16, target_modules="all-linear"))
    for name, weight in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.2)
    adapted.save_pretrained(tmp_path, save_embedding_layers=False)
    settings = PolicyConfig(**QUICK)
    server = CompletionServer("adapter-1", served.url, settings)
    server.load_adapter("adapter-1", str(tmp_path))
    policy = from_server(server, local.model, local.encoder.tokenizer, settings)
    turns, actions = [make_turn(), make_turn(steps=0)], [["look", "go"], ["inventory", "go"]]
    ours = np.concatenate(from_model(adapted, local.encoder.tokenizer, settings).logprobs(turns, actions))
    assert np.concatenate(policy.logprobs(turns, actions)) == pytest.approx(ours, abs=1e-3)
    base = pair(served.folder, served.url)[1]
    assert np.abs(np.concatenate(base.logprobs(turns, actions)) - ours).max() > 0.1
    server.unload_adapter("adapter-1")
    with pytest.raises(UnavailableError, match="does not exist"):
        policy.act(turns)
