"""Nothing read from data names code: what a log or a model folder calls its environment or its classes never runs."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worldline import store
from worldline.cli import main

MARKER = "ran"
EVIL = f"""
import pathlib
pathlib.Path({MARKER!r}).touch()

class World:
    name, version, family, max_steps, max_return = "evil", "", "generic", 5, 1.0
    def splits(self): return ("all",)
    def num_tasks(self, split): return 1
    def get_task(self, split, index): return "only"
    def make(self): raise NotImplementedError
    def expert(self, turn): return "go"
"""


def import_log(folder: Path, env: str) -> None:
    """Two imported episodes that call their environment `env`, in the folder `log`."""
    rows = [
        {"dataset": env, "policy": "p", "task_id": n, "task": "t", "steps": [{"action": "go", "observation": "x"}]}
        for n in (1, 2)
    ]
    (folder / "rows.jsonl").write_text(
        "".join(json.dumps(row | {"reward": 1.0, "success": True}) + "\n" for row in rows)
    )
    assert main(["import", "episodes", str(folder / "rows.jsonl"), "--out", str(folder / "log"), "--json"]) == 0
    assert {episode.env for episode in store.read(folder / "log")} == {env}


def evaluate(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """`evaluate` in a process of its own, whose working directory holds the log and the evil module."""
    line = [sys.executable, "-m", "worldline", "evaluate", "--log", "log", "--policy", "expert", *words]
    # without this `-m` would put the working directory on the path by itself, which the `worldline` script does not
    safe = {**os.environ, "PYTHONSAFEPATH": "1"}
    return subprocess.run(line, cwd=folder, env=safe, capture_output=True, text=True, timeout=120, check=False)


def refusal(env: str) -> str:
    line = f"the log names its environment '{env}', and data runs no code: give --env {env} if you trust it"
    return f"worldline evaluate: {line}\n"


def test_a_log_names_no_code(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(EVIL)
    import_log(tmp_path, "evil:World")
    done = evaluate(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", refusal("evil:World"))
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("env", ["os:abort", "openenv:http://localhost:9"])
def test_a_log_names_nothing_that_is_installed_or_listens(
    tmp_path: Path, env: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def touched(*given: object, **named: object) -> None:
        (tmp_path / MARKER).touch()

    monkeypatch.setattr("os.abort", touched)
    monkeypatch.setattr("socket.socket.connect", touched)
    import_log(tmp_path, env)
    capsys.readouterr()
    assert main(["evaluate", "--log", str(tmp_path / "log"), "--policy", "expert"]) == 2
    assert capsys.readouterr() == ("", refusal(env))
    assert not (tmp_path / MARKER).exists()


def test_the_command_line_may_name_the_code_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(EVIL)
    import_log(tmp_path, "evil:World")
    done = evaluate(tmp_path, "--env", "evil:World", "--json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / MARKER).exists()
    assert json.loads(done.stdout)["policies"][0]["name"] == "expert"


def test_a_log_that_is_called_by_its_dataset_needs_an_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_log(tmp_path, "webarena")
    capsys.readouterr()
    assert main(["evaluate", "--log", str(tmp_path / "log"), "--policy", "expert"]) == 2
    assert "the log names its environment 'webarena', which is not a built-in: --env NAME" in capsys.readouterr().err


class Payload:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("verb", ["collect", "sft", "train"])
@pytest.mark.parametrize("trick", ["auto_map", "pickled weights"])
def test_a_model_folder_runs_no_code(
    tmp_path: Path, verb: str, trick: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    if trick == "auto_map":
        (folder / "evil.py").write_text(EVIL)
        classes = {
            "AutoConfig": "evil.World",
            "AutoModelForCausalLM": "evil.World",
            "AutoTokenizer": ["evil.World", None],
        }
        (folder / "config.json").write_text(json.dumps({"model_type": "evil", "auto_map": classes}))
        (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": classes}))
        monkeypatch.setattr("builtins.input", lambda prompt: "y")  # yes to any question whether code may run
    else:
        write_llama(folder)
        (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(tmp_path / MARKER)))
    words = {
        "collect": ["household", "--policy", "hf:model", "--episodes", "1"],
        "sft": ["household", "--model", "model", "--episodes", "1", "--out", "out"],
        "train": ["household", "--model", "model", "--out", "out"],
    }
    assert main([verb, *words[verb]]) == 2
    assert "model: " in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / MARKER).exists()


def write_llama(folder: Path) -> None:
    """The folder of a small model, all but its weights."""
    from transformers import LlamaConfig

    from worldline.sft.small import small_tokenizer

    small_tokenizer(["go to the desk"], 300).save_pretrained(folder)
    LlamaConfig(
        vocab_size=300, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1
    ).save_pretrained(folder)
