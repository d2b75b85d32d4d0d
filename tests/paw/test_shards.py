"""Sharded training states: what was written comes back, and what is not as it was written is refused.

`test_processes.py` has states of two processes that one reads, and the other way round.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from tiny import tiny_lm

from worldline.paw import shards
from worldline.paw.model import LearnerConfig, wrap
from worldline.types import InputError


def trained(steps: int, seed: int = 0) -> tuple[Any, torch.optim.AdamW]:
    """A learner with adapters and its optimizer after some steps on noise."""
    learner = wrap(tiny_lm(), LearnerConfig(lora=2), seed=seed)
    optimizer = torch.optim.AdamW([weight for weight in learner.parameters() if weight.requires_grad], lr=0.01)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        for weight in optimizer.param_groups[0]["params"]:
            weight.grad = torch.randn(weight.shape, generator=generator)
        optimizer.step()
    return learner, optimizer


def test_weights_and_moments_come_back(tmp_path: Path) -> None:
    learner, optimizer = trained(3)
    shards.save(tmp_path / "state", 7, learner, optimizer, Accelerator(cpu=True))
    other, other_optimizer = trained(1, seed=1)
    assert shards.load(tmp_path / "state", other, other_optimizer, Accelerator(cpu=True)) == 7
    for before, after in zip(learner.parameters(), other.parameters(), strict=True):
        assert torch.equal(before, after)
    moments, same = (each.state_dict()["state"] for each in (optimizer, other_optimizer))
    assert moments.keys() == same.keys()
    for index in moments:
        assert all(torch.equal(moments[index][name], same[index][name]) for name in ("step", "exp_avg", "exp_avg_sq"))


def test_a_state_that_is_not_as_it_was_written_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    learner, optimizer = trained(1)
    shards.save(folder, 7, learner, optimizer, Accelerator(cpu=True))
    (shard,) = folder.glob("*.safetensors")
    content = shard.read_bytes()
    index = (folder / "state.json").read_text()
    for spoil in (
        lambda: shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1])),
        lambda: shard.unlink(),
        lambda: (folder / "state.json").write_text("{}"),
        lambda: (folder / "state.json").unlink(),
    ):
        spoil()
        with pytest.raises(InputError, match=f"{folder}: no training state to go on from: cut short or corrupt"):
            shards.load(folder, learner, optimizer, Accelerator(cpu=True))
        shard.write_bytes(content)
        (folder / "state.json").write_text(index)
    assert shards.load(folder, learner, optimizer, Accelerator(cpu=True)) == 7
