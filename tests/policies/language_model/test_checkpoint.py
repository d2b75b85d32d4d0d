"""A folder that is no checkpoint is refused in one line, which names a checkpoint nearby."""

from pathlib import Path

import pytest
from huggingface_hub.errors import HfHubHTTPError

from worldline.paw import model as learner
from worldline.policies import PolicyConfig, load
from worldline.policies.language_model import checkpoint
from worldline.policies.language_model.checkpoint import locate
from worldline.types import InputError


@pytest.mark.parametrize(
    ("holds", "instead"),
    [
        (["model"], "model"),
        (["checkpoints/update-000002", "checkpoints/update-000010"], "checkpoints/update-000010"),
    ],
)
def test_a_run_folder_names_the_model_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holds: list[str], instead: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in holds:
        (tmp_path / "runs" / "clone" / name).mkdir(parents=True)
        (tmp_path / "runs" / "clone" / name / "config.json").write_text("{}")
    (tmp_path / "runs" / "clone" / "config.json").write_text('{"seed": 0}')  # the settings of the run
    with pytest.raises(InputError, match=f"^hf:runs/clone: is a run folder: give hf:runs/clone/{instead}$"):
        load("hf:runs/clone", None, PolicyConfig())
    with pytest.raises(InputError, match=f"^--model runs/clone/: is a run folder: give --model runs/clone/{instead}$"):
        learner.load("runs/clone/")
    assert locate(f"runs/clone/{instead}", "") == f"runs/clone/{instead}"
    (tmp_path / "runs" / "clone" / "model.safetensors").touch()
    assert locate("runs/clone", "") == "runs/clone", "a model that has another one beside its weights"


def test_a_name_that_is_nowhere_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = []

    def unreachable(url: str) -> None:
        requests.append(url)
        raise RuntimeError("no route to host")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint, "get_hf_file_metadata", unreachable)
    line = r"hf:runs/nope: no such folder here, and the hub cannot be reached \(offline\?\)$"
    with pytest.raises(InputError, match=line):
        load("hf:runs/nope", None, PolicyConfig())
    with pytest.raises(InputError, match="^hf:my model: no such folder$"):
        load("hf:my model", None, PolicyConfig())
    assert len(requests) == 1


def test_what_the_hub_has_or_is_too_busy_to_tell_is_left_to_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "get_hf_file_metadata", lambda url: None)
    assert locate("someone/something", "") == "someone/something"

    def busy(url: str) -> None:
        raise HfHubHTTPError.__new__(HfHubHTTPError)

    monkeypatch.setattr(checkpoint, "get_hf_file_metadata", busy)
    assert locate("someone/something", "") == "someone/something"
