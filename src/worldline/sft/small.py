"""A small Llama and its tokenizer, made on the spot: a real causal LM for CPUs, tests and the demo."""

from collections.abc import Iterable
from typing import Any, Literal

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

Size = Literal["nano", "micro", "mini"]
SIZES: dict[str, dict[str, int]] = {
    "nano": {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4},
    "micro": {"hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 4, "num_attention_heads": 6},
    "mini": {"hidden_size": 256, "intermediate_size": 768, "num_hidden_layers": 5, "num_attention_heads": 8},
}
"""About 0.8, 2.1 and 4.5 million parameters with a vocabulary of 1,024."""

_SPLIT = Regex(r" ?[A-Za-z]+| ?[0-9]|\n| ?[^\sA-Za-z0-9]+|\s+")
"""Words with their leading space, single digits, line ends: `drawer 12` never becomes one opaque token."""


def small_tokenizer(texts: Iterable[str], vocabulary: int) -> Any:
    """A byte-level BPE tokenizer trained on `texts`; any other text still encodes, byte by byte."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_SPLIT, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=["<pad>", "<eos>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", padding_side="left"
    )


def small_model(tokenizer: Any, size: Size, context: int, seed: int) -> Any:
    """A freshly initialised Llama of the given size for the tokenizer's vocabulary."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            **SIZES[size],
            vocab_size=len(tokenizer),
            max_position_embeddings=context,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
