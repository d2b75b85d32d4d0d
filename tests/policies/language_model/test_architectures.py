"""Models of other kinds: learned positions, sliding windows, ALiBi; recurrent ones are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from worldline.policies import PolicyConfig
from worldline.policies.language_model import hf
from worldline.policies.language_model.forward import shares_prefix
from worldline.types import InputError, Turn

Make = Callable[..., Turn]
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.3, "bos_token_id": None}
GROUPED = {"intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
SHORT_SIGHTED = {**GROUPED, "sliding_window": 16}
KINDS: dict[str, tuple[type, dict[str, Any], bool]] = {
    "gpt2": (transformers.GPT2Config, {"n_embd": 32, "n_head": 4}, True),
    "qwen2": (transformers.Qwen2Config, GROUPED, True),
    "gemma3": (transformers.Gemma3TextConfig, SHORT_SIGHTED, False),
    "mistral": (transformers.MistralConfig, SHORT_SIGHTED, False),
    "bloom": (transformers.BloomConfig, {"n_head": 4}, False),
}
"""Config, what it needs besides, and whether continuations may share a prompt's cache."""


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def other(kind: str, tokenizer: Any) -> Any:
    torch.manual_seed(1)
    make, fields, _ = KINDS[kind]
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = make(vocab_size=len(tokenizer), **SMALL, **fields, **ends)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


def test_acting_and_scoring_equal_brute_force(kind: str, other: Any, tokenizer: Any, make_turn: Make) -> None:
    def brute_force(prompt: list[int], answer: list[int]) -> np.ndarray:
        with torch.no_grad():
            logprobs = torch.log_softmax(other(torch.tensor([prompt + answer])).logits[0].double(), -1)
        return np.array([logprobs[len(prompt) + i - 1, token].item() for i, token in enumerate(answer)])

    turns = [make_turn(steps=i, seed=i) for i in (0, 3, 1)]
    assert shares_prefix(other) == KINDS[kind][2]
    chooser = hf.from_model(other, tokenizer, PolicyConfig(mode="choose"))
    writer = hf.from_model(other, tokenizer, PolicyConfig(max_new_tokens=6))
    for policy in (chooser, writer):
        for turn, decision in zip(turns, policy.act(turns), strict=True):
            expected = brute_force(policy.encoder.prompt(turn), list(decision.token_ids))
            assert decision.token_logprobs == pytest.approx(expected, abs=2e-4)


def test_recurrent_models_are_refused_rather_than_misread(tokenizer: Any) -> None:
    config = transformers.MambaConfig(vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=2)
    mamba = transformers.AutoModelForCausalLM.from_config(config)
    with pytest.raises(InputError, match="recurrent layers"):
        hf.from_model(mamba, tokenizer, PolicyConfig())
