"""A Llama of random weights for a tokenizer made on the spot."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_llama(tokenizer: Any, width: int, **more: Any) -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=2048,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        **more,
    )
    return LlamaForCausalLM(config)
