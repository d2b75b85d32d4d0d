"""A start policy for the counting world: a tiny Llama over whole words that knows the rules and nothing of the goal.

Every process of a test run reads this file, and those that make no policy need not wait for transformers.
"""

import random
from pathlib import Path

import pytest

WORDS = ["<pad>", "<eos>", "\n", ">", " up", " stay", "at", "Task:", " count", " to", *(f" {n}" for n in range(7))]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_start(tmp_path_factory.mktemp("start"))


def save_start(folder: Path, *, tied: bool = False, width: int = 32) -> Path:
    """Goes up or stays with equal chances, and always says one of the two; saved as a transformers folder."""
    import torch
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from tiny_llama import tiny_llama

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<pad>"))
    words.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[A-Za-z]+:?| ?[0-9]|\n|>"), behavior="isolated")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<eos>")
    sizes = {"intermediate_size": 64, "num_attention_heads": 2, "max_position_embeddings": 256}
    model = tiny_llama(tokenizer, width, tie_word_embeddings=tied, **sizes)
    model.config.worldline = {"prompt": "transcript", "history": None}
    rng = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(40):
        batch = tokenizer([_transcript(rng) for _ in range(16)], add_special_tokens=False, return_tensors="pt")
        model(input_ids=batch["input_ids"], labels=batch["input_ids"]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _transcript(rng: random.Random) -> str:
    """Six steps at random, whatever the goal; always equally many tokens."""
    text, count = f"Task: count to {rng.randint(1, 3)}\nat 0\n>", 0
    for _ in range(6):
        up = rng.random() < 0.5
        count += up
        text += f" {'up' if up else 'stay'}\nat {count}\n>"
    return text
