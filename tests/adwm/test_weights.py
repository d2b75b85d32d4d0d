"""Weights that were changed on the disk are noticed, whichever byte it was."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_model
from torch import nn

from worldline.adwm.weights import load_weights, save_weights


def module(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    tied = nn.Linear(3, 3)
    made = nn.Sequential(tied, nn.Embedding(4, 3), tied)
    made.register_buffer("counts", torch.arange(5))
    made.register_buffer("halved", torch.rand(2, dtype=torch.bfloat16))
    made.register_buffer("nothing", torch.zeros(0))
    return made


def test_weights_and_facts_come_back(tmp_path: Path) -> None:
    save_weights(module(0), tmp_path / "w.safetensors", episodes="abc")
    other = module(1)
    assert load_weights(other, tmp_path / "w.safetensors")["episodes"] == "abc"
    for own, saved in zip(other.state_dict().values(), module(0).state_dict().values(), strict=True):
        assert torch.equal(own, saved)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(module(0), path)
    written = path.read_bytes()
    begin = 8 + int.from_bytes(written[:8], "little")
    assert len(written) - begin > 100
    for place in range(begin, len(written)):
        path.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        with pytest.raises(ValueError, match="its weights are not those that were written"):
            load_weights(module(1), path)


def test_a_file_without_a_digest_is_taken(tmp_path: Path) -> None:
    save_model(module(0), str(tmp_path / "w.safetensors"))
    assert "digest" not in load_weights(module(1), tmp_path / "w.safetensors")
