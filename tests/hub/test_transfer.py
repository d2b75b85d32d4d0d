"""Push and pull against a stand-in of the hub: what comes is what went, nothing else, and nothing is replaced."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from hub_server import Hub, serving
from huggingface_hub import constants
from safetensors.numpy import save_file

from worldline import store
from worldline.hub import from_hub, push_to_hub
from worldline.types import InputError, Step, Trajectory, WorldlineError

EPISODES = [
    Trajectory(
        id=f"e{n}",
        env="maze|<b>",
        env_version="2",
        task_id=f"t{n % 3}",
        split="train",
        policy="ab"[n % 2],
        steps=tuple(Step(observation=f"room {n}", action="go", reward=float(n % 2)) for _ in range(1 + n % 2)),
        success=bool(n % 2),
        terminated=True,
    )
    for n in range(10)
]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in may be reached, although tests are offline, by somebody who is logged in."""
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_TOKEN", "hf_stand_in")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with store.StoreWriter(tmp_path / "log", flush_every=4) as writer:
        for episode in EPISODES:
            writer.append(episode)
    return tmp_path / "log"


@pytest.fixture
def world_model(log: Path, tmp_path: Path) -> Path:
    """The files of one, with settings that name a folder of this machine and what training left."""
    folder = tmp_path / "wm"
    for part in ("kernel", "member-0"):
        (folder / part).mkdir(parents=True)
        save_file({"w": np.arange(3.0)}, folder / part / "model.safetensors")
    (folder / "log").mkdir()
    for shard in store.shards(log):
        (folder / "log" / shard.name).write_bytes(shard.read_bytes())
    (folder / "figures.json").write_text(
        '{"figures": {"wm_exact": 0.875, "hazard_auc": null}, "notes": ["thin | log"]}'
    )
    (folder / "config.json").write_text('{"log": ["/home/somebody/secret"]}')
    (folder / "inputs.json").write_text('{"/home/somebody/secret": "0"}')
    (folder / "training-0.pt").write_bytes(pickle.dumps([1]))
    return folder


def _metadata(card: bytes) -> dict[str, object]:
    loaded = yaml.safe_load(card.decode().split("---")[1])
    assert isinstance(loaded, dict)
    return loaded


def test_a_log_goes_there_and_comes_back(log: Path, hub: Hub, tmp_path: Path) -> None:
    pushed = push_to_hub(log, "me/maze", licence="mit", endpoint=hub.url)
    assert (pushed.kind, pushed.private, pushed.url) == ("log", True, f"{hub.url}/datasets/me/maze")
    assert hub.private["datasets", "me/maze"] is True
    pulled = from_hub("me/maze", tmp_path / "again", endpoint=hub.url)
    assert (pulled.kind, pulled.left) == ("log", ())
    assert list(store.read(tmp_path / "again")) == EPISODES
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == ["README.md", "log"]


def test_the_card_says_what_counting_says(log: Path, hub: Hub) -> None:
    push_to_hub(log, "me/maze", licence="mit", public=True, endpoint=hub.url)
    assert not hub.private["datasets", "me/maze"]
    card = hub.repositories["datasets", "me/maze"]["README.md"]
    metadata = _metadata(card)
    assert metadata["license"] == "mit"
    assert metadata["size_categories"] == ["n<1K"]
    assert metadata["configs"] == [{"config_name": "default", "data_files": "log/*.parquet"}]
    text = card.decode()
    assert "10 episodes, 15 steps, 3 tasks" in text
    assert "maze\\|\\<b\\> 2 (10)" in text, "a name of a log is no HTML and no column"
    assert "| a | 0 | 5 | 0 | 0 |" in text
    assert "| b | 0 | 5 | 2 | 1 |" in text


def test_a_world_model_goes_without_what_names_this_machine(world_model: Path, hub: Hub, tmp_path: Path) -> None:
    push_to_hub(world_model, "me/wm", endpoint=hub.url)
    there = hub.repositories["models", "me/wm"]
    assert {"config.json", "inputs.json", "training-0.pt"}.isdisjoint(there)
    assert b"secret" not in b"".join(there.values())
    card = there["README.md"].decode()
    assert "license" not in _metadata(there["README.md"])
    assert "| wm exact | 0.875 |" in card
    assert "| hazard auc | unknown |" in card
    assert "thin \\| log" in card
    pulled = from_hub("me/wm", tmp_path / "again", endpoint=hub.url)
    assert pulled.kind == "world-model"
    sent = {name: data for name, data in there.items() if name != ".gitattributes"}
    came = {
        p.relative_to(tmp_path / "again").as_posix(): p.read_bytes()
        for p in (tmp_path / "again").rglob("*.*")
        if p.is_file()
    }
    assert came == sent


def test_nothing_is_replaced(log: Path, hub: Hub, tmp_path: Path) -> None:
    push_to_hub(log, "me/maze", endpoint=hub.url)
    before = dict(hub.repositories["datasets", "me/maze"])
    with pytest.raises(InputError, match="me/maze: is there already"):
        push_to_hub(log, "me/maze", endpoint=hub.url)
    assert hub.repositories["datasets", "me/maze"] == before
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").write_text("x")
    with pytest.raises(InputError, match="taken: is there already"):
        from_hub("me/maze", tmp_path / "taken", endpoint=hub.url)
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["mine"]


def test_a_push_that_failed_can_be_made_again(log: Path, hub: Hub) -> None:
    hub.refuse_commits = True
    with pytest.raises(WorldlineError, match="me/maze: the hub refused"):
        push_to_hub(log, "me/maze", endpoint=hub.url)
    hub.refuse_commits = False
    push_to_hub(log, "me/maze", endpoint=hub.url)
    assert len(hub.repositories["datasets", "me/maze"]) == 1 + 1 + 3


@pytest.mark.parametrize(
    "path", ["evil.py", "model.pkl", "log/../../out.parquet", "member-0/pytorch_model.bin", "log/a.py"]
)
def test_what_no_log_has_is_not_downloaded(log: Path, hub: Hub, tmp_path: Path, path: str) -> None:
    push_to_hub(log, "me/maze", endpoint=hub.url)
    hub.repositories["datasets", "me/maze"][path] = b"import os"
    pulled = from_hub("me/maze", tmp_path / "again", endpoint=hub.url)
    assert pulled.left == (path,)
    assert not any("evil" in request or ("resolve" in request and path in request) for request in hub.requests)
    assert {p.suffix for p in (tmp_path / "again").rglob("*") if p.is_file()} == {".parquet", ".md"}


def test_a_broken_shard_is_refused_and_nothing_is_kept(log: Path, hub: Hub, tmp_path: Path) -> None:
    push_to_hub(log, "me/maze", endpoint=hub.url)
    there = hub.repositories["datasets", "me/maze"]
    shard = next(name for name in there if name.endswith(".parquet"))
    there[shard] = there[shard][:-9] + b"x" + there[shard][-8:]
    with pytest.raises(InputError, match=rf"me/maze: what it holds is broken, and nothing was kept: {shard}"):
        from_hub("me/maze", tmp_path / "again", endpoint=hub.url)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log"]


def test_weights_that_cannot_be_opened_are_refused(world_model: Path, hub: Hub, tmp_path: Path) -> None:
    push_to_hub(world_model, "me/wm", endpoint=hub.url)
    hub.repositories["models", "me/wm"]["kernel/model.safetensors"] = pickle.dumps({"w": 1})
    with pytest.raises(InputError, match="what it holds is broken"):
        from_hub("me/wm", tmp_path / "again", endpoint=hub.url)
    assert not (tmp_path / "again").exists()


def test_bad_input_is_one_line(log: Path, hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither a log nor a world model"):
        push_to_hub(tmp_path / "empty", "me/x", endpoint=hub.url)
    with pytest.raises(InputError, match="no such repository"):
        from_hub("me/nowhere", tmp_path / "again", endpoint=hub.url)
    with pytest.raises(InputError, match="OWNER/NAME"):
        from_hub("a/b/c", tmp_path / "again", endpoint=hub.url)
    hub.repositories["datasets", "me/other"] = {"data.csv": b"1"}
    with pytest.raises(InputError, match="holds no log of worldline"):
        from_hub("me/other", tmp_path / "again", endpoint=hub.url)
    with pytest.raises(WorldlineError, match="cannot be reached"):
        push_to_hub(log, "me/x", endpoint="http://127.0.0.1:9")


def test_the_commands(log: Path, hub: Hub, tmp_path: Path) -> None:
    """As a user has them: the hub by $HF_ENDPOINT."""
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}

    def run(*words: str) -> dict[str, object]:
        command = [sys.executable, "-m", "worldline", *words, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        content = json.loads(done.stdout)
        assert isinstance(content, dict)
        return content

    assert run("push", str(log), "me/maze")["private"] is True
    assert run("pull", "me/maze", str(tmp_path / "again"))["kind"] == "log"
    assert list(store.read(tmp_path / "again")) == EPISODES
