"""4-bit bases and 8-bit moments: what is trained is what is saved, and what cannot be is refused in one line."""

import importlib.machinery
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from counting_recipe import RECIPE
from transformers import AutoModelForCausalLM

from worldline.cli import main
from worldline.paw import model, quantization, session
from worldline.paw.actor import Actor
from worldline.paw.batches import action_starts, pack
from worldline.paw.model import LearnerConfig, wrap
from worldline.paw.recipe import TrainConfig
from worldline.paw.rows import StepRow
from worldline.paw.sequences import token_sequences
from worldline.paw.train import train
from worldline.types import InputError

QLORA = {"lora": 4, "quantize": "4bit", "optimizer": "adamw8bit"}
ROWS = [
    StepRow(0, 0, (3, 4, 5), (6, 7), (8, 9, 2), (True,) * 3, (False,) * 3, False),
    StepRow(1, 0, (5, 4), (9, 2, 3), (4,), (True,), (False,), False),
]


@pytest.fixture
def bitsandbytes() -> Any:
    return pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed: pip install 'worldline[bnb]'")


def recipe(start: Path, out: Path, **changes: Any) -> TrainConfig:
    return TrainConfig.model_validate({**RECIPE, "model": str(start), "out": out} | changes)


def learner_of(start: Path) -> Any:
    lm, _ = model.load(str(start), **quantization.four_bit(torch.device("cpu"), torch.float32))
    learner = wrap(lm, LearnerConfig(lora=4, quantize="4bit"))
    with torch.no_grad():
        for name, weight in learner.named_parameters():
            if "lora_B" in name:  # which starts at 0
                weight.normal_(std=0.3)
    return learner


def naive(lm: Any) -> torch.Tensor:
    """Log-probs of all responses, row by row."""
    logprobs = []
    for row in ROWS:
        logits = lm(torch.tensor([row.prompt + row.response])).logits[0, len(row.prompt) - 1 : -1]
        logprobs.append(torch.log_softmax(logits.double(), -1)[range(len(row.response)), row.response])
    return torch.cat(logprobs)


@pytest.mark.usefixtures("bitsandbytes")
def test_what_plays_and_is_saved_is_what_learns(start: Path, tmp_path: Path) -> None:
    learner = learner_of(start)
    flag = "support_avx512bf16_for_cpu"
    repacking = [getattr(module, flag) for module in learner.modules() if hasattr(module, flag)]
    assert repacking
    assert not any(repacking)
    batch = pack(ROWS, action_starts(ROWS), token_sequences(ROWS, range(2), None), None)
    with torch.no_grad():
        out = learner(batch)["logprob"]
        learned = torch.empty_like(out)
        learned[batch.action_index] = out
        plain = Actor(learner, torch.float32).plain()
        torch.testing.assert_close(learned.double(), naive(plain), rtol=0, atol=1e-4)
        plain.save_pretrained(tmp_path)
        assert "quantization_config" not in json.loads((tmp_path / "config.json").read_text())
        loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
        torch.testing.assert_close(learned.double(), naive(loaded), rtol=0, atol=1e-4)
        unquantised = AutoModelForCausalLM.from_pretrained(start, dtype=torch.float32)
        assert (naive(unquantised) - learned).abs().max() > 0.01  # adapters and rounding did something


@pytest.mark.usefixtures("bitsandbytes")
def test_only_adapters_learn_and_a_half_precision_actor_follows(start: Path) -> None:
    learner = learner_of(start)
    actor = Actor(learner, torch.bfloat16)
    before = {name: weight.detach().clone() for name, weight in learner.named_parameters()}
    optimizer = quantization.adamw8bit([{"params": [w for w in learner.parameters() if w.requires_grad]}], 0.0)
    batch = pack(ROWS, action_starts(ROWS), token_sequences(ROWS, range(2), None), None)
    first = learner(batch)["logprob"].sum()
    (-first).backward()
    for group in optimizer.param_groups:
        group["lr"] = 1e-3
    optimizer.step()
    with torch.no_grad():
        assert learner(batch)["logprob"].sum() > first
        actor.refresh()
        own = Actor(learner, torch.float32).plain().to(torch.bfloat16)
        for left, right in zip(actor.model.parameters(), own.parameters(), strict=True):
            assert torch.equal(left, right)
    changed = {name for name, weight in learner.named_parameters() if not torch.equal(weight, before[name])}
    assert changed
    assert all("lora_" in name for name in changed)


@pytest.mark.usefixtures("bitsandbytes")
def test_eight_bits_keep_a_step_close_to_adamws(bitsandbytes: Any) -> None:
    """Moments of a large tensor are bytes; its steps are AdamW's to the quantisation's error."""
    torch.manual_seed(0)
    target = torch.randn(64, 128)
    ends = {}
    for name in ("adamw", "adamw8bit"):
        weight = torch.nn.Parameter(torch.zeros(64, 128))
        groups = [{"params": [weight], "lr": 0.05}]
        made = quantization.adamw8bit(groups, 0.0) if name == "adamw8bit" else torch.optim.AdamW(groups, weight_decay=0)
        for _ in range(40):
            made.zero_grad()
            (weight - target).square().sum().backward()
            made.step()
        ends[name] = weight.detach()
        if name == "adamw8bit":
            assert made.state[weight]["state1"].dtype == torch.uint8
    assert (ends["adamw8bit"] - ends["adamw"]).abs().mean() < 0.05 * target.abs().mean()


@pytest.mark.usefixtures("bitsandbytes")
def test_a_run_resumes_exactly_and_its_checkpoint_plays(start: Path, tmp_path: Path) -> None:
    whole = train(recipe(start, tmp_path / "whole", learner=QLORA))
    train(recipe(start, tmp_path / "cut", learner=QLORA, updates=2))
    resumed = train(recipe(start, tmp_path / "cut", learner=QLORA, resume=True))
    for key, value in whole.metrics.items():
        if not key.startswith(("seconds", "peak")):
            assert resumed.metrics[key] == pytest.approx(value, rel=1e-4, abs=1e-6), key
    state = torch.load(whole.checkpoint / "training_state.pt", weights_only=True)
    assert all("lora_" in name for name in state["weights"])
    collecting = ["counting:CountingWorld", "--policy", f"hf:{whole.checkpoint}", "--episodes", "4"]
    assert main(["collect", *collecting, "--out", str(tmp_path / "played"), "--device", "cpu"]) == 0


@pytest.mark.parametrize(
    ("learner", "flag"),
    [
        ({"lora": 4, "quantize": "4bit"}, "--learner.quantize 4bit"),
        ({"optimizer": "adamw8bit"}, "--learner.optimizer adamw8bit"),
    ],
)
def test_without_bitsandbytes_one_line_and_nothing_written(
    start: Path,
    tmp_path: Path,
    learner: dict[str, Any],
    flag: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(quantization, "find_spec", lambda name: None)
    flags = [word for key, value in learner.items() for word in (f"--learner.{key}", str(value))]
    run = ["train", "counting:CountingWorld", "--model", str(start), "--out", str(tmp_path / "run")]
    assert main([*run, "--rollout.device", "cpu", *flags]) == 2
    assert (
        f"{flag}: needs bitsandbytes, which is not installed: pip install 'worldline[bnb]'" in capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "sharded", "line"),
    [
        ({"learner": {"quantize": "4bit"}}, False, "needs --learner.lora RANK"),
        ({"learner": {"quantize": "4bit", "lora": 4, "critic": "own"}, "algo": "ppo"}, False, "critic shared"),
        ({"learner": {"quantize": "4bit", "lora": 4}}, True, "--learner.quantize 4bit: not with FSDP"),
        ({"learner": {"optimizer": "adamw8bit"}}, True, "--learner.optimizer adamw8bit: not with FSDP"),
    ],
)
def test_what_cannot_be_is_refused(
    start: Path, tmp_path: Path, changes: dict[str, Any], sharded: bool, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quantization, "find_spec", lambda name: SimpleNamespace())
    monkeypatch.setattr(session.processes, "is_sharded", lambda accelerator: sharded)
    with pytest.raises(InputError, match=line):
        session.Session(recipe(start, tmp_path / "run", **changes))


def test_eight_bit_adamw_gets_groups_and_decay(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a module in bitsandbytes' place: the optimiser that is made is its AdamW8bit, with our settings."""
    stand_in, optim = ModuleType("bitsandbytes"), ModuleType("bitsandbytes.optim")
    for module in (stand_in, optim):
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    optim.AdamW8bit = type("AdamW8bit", (torch.optim.AdamW,), {})  # type: ignore[attr-defined]  # a module made here has no attributes
    monkeypatch.setitem(sys.modules, "bitsandbytes", stand_in)
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", optim)
    changes = {"learner": {"optimizer": "adamw8bit"}, "update": {"lr": 0.02, "weight_decay": 0.3}}
    made = session.Session(recipe(start, tmp_path / "run", **changes)).optimizer.optimizer
    assert type(made) is optim.AdamW8bit
    assert [(group["lr"], group["weight_decay"]) for group in made.param_groups] == [(0.02, 0.3)]
