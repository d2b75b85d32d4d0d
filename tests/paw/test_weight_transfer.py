"""All weights to a server by vLLM's protocol: each update plays with its own, whatever carries the numbers.

There is no GPU here: a gloo group stands for the NCCL one (`Nccl.send` is the real one), and pickled arrays for handles
of a GPU's memory. The requests, their order and what they hold are real. WORLDLINE_VLLM names vLLM's command
(`policies/vllm_cpu.sh` installs one for a CPU): then it plays too.
"""

import base64
import json
import os
import pickle
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from completions_server import CompletionsServer
from counting_recipe import RECIPE
from start_policy import save_start
from torch.distributed import ProcessGroupGloo, TCPStore

from worldline.config import validate
from worldline.paw import server as server_module
from worldline.paw import weight_transfer
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.types import InputError, WorldlineError

pytestmark = pytest.mark.usefixtures("fresh_accelerator")
PATIENCE = timedelta(seconds=3)
ROUND = ["/start_weight_update", "/update_weights", "/finish_weight_update", "/resume"]


class Gloo(weight_transfer.Nccl):
    """The group meets at a TCP address instead of by NCCL's id; sending is inherited."""

    def open(self, workers: int, join: weight_transfer.SendRequest) -> None:
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        with weight_transfer.ThreadPoolExecutor(1) as beside:
            meeting = beside.submit(ProcessGroupGloo, store, 0, 1 + workers, PATIENCE)
            join({"port": store.port, "rank_offset": 1, "world_size": 1 + workers, "packed": False})
            self._group = meeting.result()


class GlooReceiver:
    """A worker of the group: its buffers are made from what the request says."""

    def join(self, init_info: dict[str, Any]) -> None:
        store = TCPStore("127.0.0.1", init_info["port"], is_master=False, wait_for_workers=False)
        self._group = ProcessGroupGloo(store, init_info["rank_offset"], init_info["world_size"], PATIENCE)

    def receive(self, update_info: dict[str, Any]) -> dict[str, torch.Tensor]:
        weights = {}
        columns = (update_info[key] for key in ("names", "dtype_names", "shapes"))
        for name, dtype, shape in zip(*columns, strict=True):
            weights[name] = torch.empty(shape, dtype=getattr(torch, dtype))
            self._group.broadcast(weights[name], 0).wait()
        return weights


class HandleReceiver:
    """Rebuilds tensors from what stands for handles of this GPU's memory."""

    def join(self, init_info: dict[str, Any]) -> None:
        assert init_info == {"packed": False}

    def receive(self, update_info: dict[str, Any]) -> dict[str, torch.Tensor]:
        handles = pickle.loads(base64.b64decode(update_info["ipc_handles_pickled"]))
        assert [list(handle["GPU-0"][0].shape) for handle in handles] == update_info["shapes"]
        assert set(update_info["dtype_names"]) == {"float32"}
        return {name: torch.tensor(h["GPU-0"][0]) for name, h in zip(update_info["names"], handles, strict=True)}


@pytest.fixture(params=["nccl", "ipc"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(server_module, "_PAUSE", 0.05)
    transports = {"nccl": Gloo, "ipc": weight_transfer.CudaIpc}
    monkeypatch.setattr(server_module, "transport", lambda kind, device: transports[kind](device))
    if request.param == "ipc":
        monkeypatch.setattr(
            weight_transfer, "reduce_tensor", lambda weight: (None, (weight.numpy().copy(), *[None] * 6))
        )
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="GPU-0"))
    return str(request.param)


def receiver_of(kind: str) -> Any:
    return GlooReceiver() if kind == "nccl" else HandleReceiver()


@pytest.fixture
def served(start: Path, kind: str) -> Iterator[CompletionsServer]:
    with CompletionsServer(start, receiver=receiver_of(kind)) as server:
        yield server


def recipe(start: Path, out: Path, server: dict[str, Any], **changes: Any) -> dict[str, Any]:
    short = {"updates": 3, "groups": 2, "checkpoint_every": 1, "evaluation": {"every": 0}}
    short |= {"rollout": {"max_new_tokens": 4, "device": "cpu", "api_retries": 0}}
    short |= {"update": {"lr": 1e-3, "mini_batch": 0, "kl": 0.0}}
    return RECIPE | short | {"model": str(start), "out": str(out), "server": server} | changes


def run(settings: dict[str, Any], **more: Any) -> Any:
    return train(validate(TrainConfig, settings), **more)


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("learner", [{}, {"lora": 4}])
def test_each_update_plays_with_its_own_weights(
    served: CompletionsServer, kind: str, start: Path, tmp_path: Path, learner: dict[str, Any]
) -> None:
    before = {name: weight.detach().clone() for name, weight in served.base.named_parameters()}
    run(recipe(start, tmp_path / "run", {"url": served.url, "weights": kind}, learner=learner))
    metrics = lines(tmp_path / "run")
    assert max(line["mismatch_max"] for line in metrics) < 1e-4
    assert {line["staleness"] for line in metrics} == {0}
    assert served.weight_version == "update-000003"
    assert any(not torch.equal(weight, before[name]) for name, weight in served.base.named_parameters())
    steering = [path for path, _ in served.requests if not path.startswith("/v1/")]
    assert steering == ["/pause?mode=wait", "/init_weight_transfer_engine", *ROUND] + 3 * ["/pause?mode=wait", *ROUND]
    assert not served.paused


def test_a_server_that_comes_back_gets_all_weights_again(
    served: CompletionsServer, kind: str, start: Path, tmp_path: Path
) -> None:
    started: list[CompletionsServer] = []

    def restart(metrics: dict[str, Any]) -> None:
        def begin() -> None:
            started.append(CompletionsServer(start, served.port, receiver=receiver_of(kind)).__enter__())

        if metrics["update"] == 1:
            served.stop()
            threading.Timer(0.5, begin).start()

    try:
        run(recipe(start, tmp_path / "run", {"url": served.url, "weights": kind}), watch=restart)
    finally:
        for server in started:
            server.stop()
    metrics = lines(tmp_path / "run")
    assert [line["update"] for line in metrics] == [1, 2, 3]
    assert max(line["mismatch_max"] for line in metrics) < 1e-4


def test_a_transfer_that_breaks_off_ends_the_run_whatever_the_staleness(
    served: CompletionsServer, kind: str, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the weights may be new: nobody plays with those."""

    def breaks(metrics: dict[str, Any]) -> None:
        def receive(update_info: dict[str, Any]) -> dict[str, torch.Tensor]:
            raise RuntimeError("the GPU fell off the bus")

        monkeypatch.setattr(served.receiver, "receive", receive)

    settings = {"url": served.url, "weights": kind, "wait": 0, "max_staleness": 5}
    with pytest.raises(WorldlineError, match="fell off the bus.*Checkpoints are whole"):
        run(recipe(start, tmp_path / "run", settings), watch=breaks)
    assert [line["update"] for line in lines(tmp_path / "run")] == [1, 2]  # the refresh after 2 broke off
    assert served.paused


@pytest.mark.parametrize("kind", ["nccl"], indirect=True)
def test_a_group_that_does_not_meet_is_one_line(
    served: CompletionsServer, kind: str, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback; the server, which has one update's weights, may go on."""

    def alone(transport: Any, workers: int, join: Any) -> None:
        TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(milliseconds=1)).get("0")

    monkeypatch.setattr(Gloo, "open", alone)
    with pytest.raises(WorldlineError, match="the weights of update 0 did not get there: "):
        run(recipe(start, tmp_path / "run", {"url": served.url, "weights": kind}))
    assert not served.paused


def test_a_server_without_its_dev_mode(start: Path, tmp_path: Path, kind: str) -> None:
    with CompletionsServer(start) as server, pytest.raises(WorldlineError, match="VLLM_SERVER_DEV_MODE=1"):
        run(recipe(start, tmp_path / "run", {"url": server.url, "weights": kind}))


def test_refused_where_it_cannot_be(start: Path, tmp_path: Path) -> None:
    for kind in ("nccl", "ipc"):
        with pytest.raises(InputError, match=f"--server.weights {kind}: weights go from GPU to GPU.*on cpu"):
            run(recipe(start, tmp_path / "run", {"url": "http://127.0.0.1:9/v1", "weights": kind}))
    several = SimpleNamespace(num_processes=2, device=torch.device("cpu"))
    config = validate(TrainConfig, recipe(start, tmp_path / "run", {"url": "http://h/v1", "weights": "nccl"}))
    with pytest.raises(InputError, match="--server.weights nccl: only one training process can send"):
        server_module.carrier(config.server, SimpleNamespace(), tmp_path, config.rollout, "m", several)


WITHOUT_GPU = """
from types import SimpleNamespace
import torch
from torch.multiprocessing import reductions
torch.cuda.get_device_properties = lambda device: SimpleNamespace(uuid="GPU-0")
reductions.rebuild_cuda_tensor = lambda array, *rest: torch.tensor(array)
"""
"""Run by each of vLLM's processes at its start: handles are arrays. All else of vLLM is as it is."""
COMMAND = os.environ.get("WORLDLINE_VLLM", "")


@pytest.fixture
def vllm(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A start policy, and where vLLM serves it. Untied: vLLM on a CPU keeps a packed copy of a tied head."""
    folder, site = save_start(tmp_path / "start", width=64), tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WITHOUT_GPU)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    settings |= {"VLLM_NO_USAGE_STATS": "1", "PYTHONPATH": str(site)}
    flags = "--dtype float32 --logprobs-mode processed_logprobs --enforce-eager --no-enable-chunked-prefill"
    where = ["--host", "127.0.0.1", "--port", str(port), "--weight-transfer-config", json.dumps({"backend": "ipc"})]
    log = tmp_path / "vllm.log"
    with log.open("w") as output:
        command = [COMMAND, "serve", str(folder), *flags.split(), *where]
        process = subprocess.Popen(command, env=os.environ | settings, stdout=output, stderr=output)
    try:
        for _ in range(300):
            assert process.poll() is None, log.read_text()[-3000:]
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            time.sleep(1)
        yield folder, f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(60)


@pytest.mark.skipif(not COMMAND, reason="needs vLLM: set WORLDLINE_VLLM to its command (vllm_cpu.sh)")
@pytest.mark.parametrize("kind", ["ipc"], indirect=True)
def test_vllm_plays_each_update_with_its_own_weights(vllm: tuple[Path, str], kind: str, tmp_path: Path) -> None:
    start, url = vllm
    run(recipe(start, tmp_path / "run", {"url": url, "weights": kind}))
    metrics = lines(tmp_path / "run")
    assert len(metrics) == 3
    assert max(line["mismatch_max"] for line in metrics) < 1e-4
