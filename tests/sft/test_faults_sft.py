"""Cloning with each of its file system calls broken in turn: what is there is whole, and resuming gives the same."""

from pathlib import Path

import pytest

import faults
from training_states import values
from worldline import files
from worldline.sft import SftConfig, sft
from worldline.sft.small import SIZES

TINY = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
SHORT = {"episodes": 4, "epochs": 1, "context": 128, "vocabulary": 300, "batch_tokens": 64, "checkpoints": 2}


def clone(out: Path) -> None:
    sft(SftConfig.model_validate({"source": "counting:CountingWorld", "out": out, "resume": True, **SHORT}))


@pytest.mark.parametrize("how", ["full", "killed"])
def test_a_broken_clone_is_whole_and_resumes_to_the_same_bytes(
    how: faults.How, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SIZES, "nano", TINY)
    clone(tmp_path / "whole")
    whole = faults.snapshot(tmp_path / "whole")
    assert len(files.read_lines(tmp_path / "whole" / "metrics.jsonl").whole) == 3
    broken = 0
    for state in faults.states_left(clone, tmp_path, how):
        left = state.path
        for name, content in faults.snapshot(left).items():
            if name == "training_state.pt":
                assert values(left / name)["progress"]["step"] in (2, 3)
            elif name == "metrics.jsonl":
                assert whole[name].startswith(content)
            elif name != "config.json":
                assert content == whole[name]
        clone(left)
        resumed = faults.snapshot(left)
        assert resumed.keys() == whole.keys()
        apart = {"config.json", "training_state.pt"}  # one names the folder, the other is compared by value
        assert [name for name in whole if name not in apart and resumed[name] != whole[name]] == []
        assert values(left / "training_state.pt") == values(tmp_path / "whole" / "training_state.pt")
        broken += state.calls
    assert broken > 40
