"""Layers computed here say what transformers' layers say, for the models that have such layers and no others."""

from typing import Any

import pytest
import torch
from transformers import (
    FalconConfig,
    FalconForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from tiny_llama import tiny_llama
from worldline.policies.language_model.layer_operations import TorchOperations
from worldline.policies.language_model.stack import FusedStack, TransformersStack, stack_of

SIZES = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.3}


def qwen2() -> Any:
    model = Qwen2ForCausalLM(Qwen2Config(**SIZES, **HEADS))
    for layer in model.model.layers:  # transformers starts them at 0
        for part in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            torch.nn.init.normal_(part.bias)
    return model


FITTING = {
    "llama": lambda: tiny_llama(60, 32, intermediate_size=48, num_key_value_heads=2, initializer_range=0.3),
    "all heads": lambda: tiny_llama(60, 32, intermediate_size=48, initializer_range=0.3),
    "biases": lambda: tiny_llama(60, 32, intermediate_size=48, attention_bias=True, mlp_bias=True),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, **HEADS, sliding_window=None)),
    "qwen2": qwen2,
}
OTHERS = {
    "norms of heads": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, **HEADS)),
    "learned positions": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=60, n_embd=32, n_layer=2, n_head=4)),
    "falcon": lambda: FalconForCausalLM(
        FalconConfig(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4)
    ),
}


def cache_for(model: Any, rows: int, time: int) -> torch.Tensor:
    config = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return torch.zeros(config.num_hidden_layers, 2, rows, heads, time, size)


@pytest.mark.parametrize("kind", FITTING)
def test_fused_layers_read_and_step_as_transformers_do(kind: str) -> None:
    torch.manual_seed(0)
    model = FITTING[kind]().eval()
    assert isinstance(stack_of(model), FusedStack)
    ids = torch.randint(0, 60, (3, 9))
    with torch.inference_mode():
        whole = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        for stack in (FusedStack(model, TorchOperations()), TransformersStack(model)):
            reading, stepping = cache_for(model, 3, 7), cache_for(model, 3, 12)
            states = stack.read(ids[:, :7], torch.arange(7)[None], reading)
            torch.testing.assert_close(states, whole[:, :7], rtol=1e-4, atol=1e-4)
            stepping[..., :7, :] = reading
            hidden = torch.full((3, 1, 1, 12), -torch.inf)
            hidden[..., :7] = 0
            for place, at in ((7, 8), (8, 10)):  # what is hidden may stand between tokens
                hidden[..., at] = 0
                positions = torch.full((3,), place)
                state = stack.step(ids[:, place], positions, stepping, torch.tensor([at]), hidden)
                torch.testing.assert_close(state, whole[:, place], rtol=1e-4, atol=1e-4)


def test_another_gate_is_left_to_transformers_however_close_it_is() -> None:
    """With small weights and in half precision it is hard to tell from silu by its numbers."""
    torch.manual_seed(0)
    model = tiny_llama(60, 32, intermediate_size=48, initializer_range=0.02, hidden_act="gelu").eval().bfloat16()
    assert isinstance(stack_of(model), TransformersStack)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_layers_are_left_to_transformers(kind: str) -> None:
    torch.manual_seed(0)
    assert isinstance(stack_of(OTHERS[kind]().eval()), TransformersStack)


def test_layers_that_look_alike_and_compute_otherwise_are_left_to_transformers() -> None:
    torch.manual_seed(0)
    model = tiny_llama(60, 32, intermediate_size=48, initializer_range=0.3).eval()
    model.model.layers[0].self_attn.forward = lambda hidden_states, **rest: (hidden_states, None)
    assert isinstance(stack_of(model), TransformersStack)
