"""A Llama of random weights with two layers."""

from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_llama(tokenizer: Any, width: int, *, seed: int = 0, **options: Any) -> Any:
    """A new model for the vocabulary of `tokenizer`, or of that many tokens; `options` are LlamaConfig's."""
    if not isinstance(tokenizer, int):
        options |= {
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": None,
        }
        tokenizer = len(tokenizer)
    settings = {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 2048} | options
    torch.manual_seed(seed)
    return LlamaForCausalLM(LlamaConfig(vocab_size=tokenizer, hidden_size=width, **settings))
