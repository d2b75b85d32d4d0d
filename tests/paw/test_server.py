"""Training with the episodes of a server: it learns, survives the server, and refuses what is too old."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from completions_server import CompletionsServer
from counting_recipe import RECIPE

from worldline import store
from worldline.cli import main
from worldline.config import validate
from worldline.paw import server as server_module
from worldline.paw.recipe import TrainConfig
from worldline.paw.train import train
from worldline.policies import PolicyConfig, load
from worldline.types import InputError, WorldlineError
from worldline.types import turns as worldline_turns

LORA = {"learner": {"lora": 4, "lora_alpha": 16.0}, "update": {"lr": 5e-3, "mini_batch": 0, "kl": 0.0}}

CPU = PolicyConfig(device="cpu")

pytestmark = pytest.mark.usefixtures("fresh_accelerator")


@pytest.fixture
def served(start: Path) -> Iterator[CompletionsServer]:
    with CompletionsServer(start) as server:
        yield server


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_PAUSE", 0.05)


def recipe(start: Path, out: Path, url: str, **changes: Any) -> dict[str, Any]:
    rollout = {"max_new_tokens": 4, "device": "cpu", "api_retries": 0}
    short = {"updates": 3, "groups": 2, "checkpoint_every": 1, "evaluation": {"every": 0}, "rollout": rollout}
    return RECIPE | LORA | short | {"model": str(start), "out": str(out), "server": {"url": url}} | changes


def run(settings: dict[str, Any], **more: Any) -> Any:
    return train(validate(TrainConfig, settings), **more)


def lines(out: Path) -> list[dict[str, Any]]:
    metrics = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith(("seconds", "peak"))} for line in metrics]


@pytest.fixture(scope="module")
def whole(start: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletionsServer]:
    """A run, and the server that played its episodes."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with CompletionsServer(start) as server:
        run(recipe(start, out, server.url))
    return out, server


def test_the_served_policy_is_the_learner_and_learns(whole: tuple[Path, CompletionsServer], start: Path) -> None:
    out = whole[0]
    metrics = lines(out)
    assert max(line["mismatch_max"] for line in metrics) < 1e-4  # so every update's adapter was played with
    assert {line["staleness"] for line in metrics} == {0}
    turns = [turn for trajectory in store.read(out / "log") for turn in worldline_turns(trajectory)]
    chances = [
        np.mean(np.concatenate(load(f"hf:{folder}", None, CPU).logprobs(turns, [["up"]] * len(turns))))
        for folder in (start, *sorted((out / "checkpoints").iterdir()))
    ]
    assert chances == sorted(chances)
    assert chances[-1] > chances[0] + 0.05


def test_each_update_has_an_adapter_of_its_own(whole: tuple[Path, CompletionsServer], start: Path) -> None:
    out, server = whole
    loads = [body["lora_name"] for path, body in server.requests if path == "/v1/load_lora_adapter"]
    unloads = [body["lora_name"] for path, body in server.requests if path == "/v1/unload_lora_adapter"]
    assert [name[-6:] for name in loads] == [f"{update:06d}" for update in range(4)]
    assert unloads == loads[:-1]
    assert set(server.models) == {str(start), loads[-1]}
    assert [folder.name for folder in (out / "adapters").iterdir()] == loads[-1:]


def test_a_server_that_dies_ends_the_run_and_resuming_goes_on(
    served: CompletionsServer,
    whole: tuple[Path, CompletionsServer],
    start: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def kill(metrics: dict[str, Any]) -> None:
        if metrics["update"] == 1:
            served.stop()

    out = tmp_path / "run"
    settings = recipe(start, out, served.url, server={"url": served.url, "wait": 0})
    with pytest.raises(WorldlineError, match="cannot be reached.*Checkpoints are whole.*--resume"):
        run(settings, watch=kill)
    assert [folder.name for folder in (out / "checkpoints").iterdir()] == ["update-000001"]
    path = tmp_path / "recipe.yaml"
    path.write_text(json.dumps(settings))  # JSON is YAML
    assert main(["train", str(path), "--resume"]) == 1
    assert capsys.readouterr().err.count("Checkpoints are whole") == 1
    with CompletionsServer(start) as another:
        assert main(["train", str(path), "--resume", "--server.url", another.url]) == 0
    assert lines(out) == lines(whole[0])


def test_a_server_that_comes_back_is_waited_for(served: CompletionsServer, start: Path, tmp_path: Path) -> None:
    started: list[CompletionsServer] = []

    def restart(metrics: dict[str, Any]) -> None:
        if metrics["update"] == 1:
            served.stop()
            threading.Timer(0.5, lambda: started.append(CompletionsServer(start, served.port).__enter__())).start()

    try:
        run(recipe(start, tmp_path / "run", served.url), watch=restart)
    finally:
        for server in started:
            server.stop()
    metrics = lines(tmp_path / "run")
    assert [line["update"] for line in metrics] == [1, 2, 3]
    assert max(line["mismatch_max"] for line in metrics) < 1e-4  # it has the adapter again


def test_old_weights_play_only_as_long_as_staleness_allows(
    served: CompletionsServer, start: Path, tmp_path: Path
) -> None:
    def full(metrics: dict[str, Any]) -> None:
        if metrics["update"] == 1:
            served.refuses_adapters = "no room for adapters"

    config = {"server": {"url": served.url, "max_staleness": 1}, "updates": 4}
    with pytest.raises(WorldlineError, match="no room for adapters"):
        run(recipe(start, tmp_path / "run", served.url) | config, watch=full)
    metrics = lines(tmp_path / "run")
    assert [line["staleness"] for line in metrics] == [0, 0, 1]
    assert metrics[2]["mismatch_mean"] > 100 * metrics[1]["mismatch_mean"]
    served.refuses_adapters = ""
    with pytest.raises(WorldlineError, match="no room for adapters"):
        run(recipe(start, tmp_path / "strict", served.url), watch=full)
    assert [line["staleness"] for line in lines(tmp_path / "strict")] == [0, 0]


def test_rows_that_are_too_old_are_refused(
    served: CompletionsServer, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever let the server play on: here a refresh that forgets to send anything."""
    real = server_module.RolloutServer.refresh
    monkeypatch.setattr(
        server_module.RolloutServer, "refresh", lambda own, update, rank: update or real(own, update, rank)
    )
    with pytest.raises(WorldlineError, match="weights 1 updates old, over --server.max-staleness 0"):
        run(recipe(start, tmp_path / "run", served.url))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learner": {}}, "--server.url: needs --learner.lora RANK, or --server.weights nccl or ipc"),
        ({"server": {"url": "http://me:secret@host/v1"}}, "without user, password and query"),
    ],
)
def test_bad_settings(start: Path, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(recipe(start, tmp_path / "run", "http://127.0.0.1:9/v1", **changes))


def test_a_server_that_takes_no_adapters(start: Path, tmp_path: Path) -> None:
    words = "VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora"
    with CompletionsServer(start, adapters=False) as server, pytest.raises(WorldlineError, match=words):
        run(recipe(start, tmp_path / "run", server.url))
