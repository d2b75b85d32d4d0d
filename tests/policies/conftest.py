"""A tiny random-weights Llama with a byte-level BPE tokenizer made on the spot, and turns to put to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tiny_llama import tiny_llama
from worldline.types import Exchange, Turn

TEXT = [
    "Your task is to: put some apple on the desk",
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a desk 1, a fridge 1.\n>",
    "go to cabinet 1\ngo to desk 1\ngo to fridge 1\nopen fridge 1\ntake apple 1 from fridge 1\nlook\ninventory",
    "You open the fridge 1. The fridge 1 is open. In it, you see a apple 1, and a egg 2.",
]
ACTIONS = ("go to cabinet 1", "go to desk 1", "go to fridge 1", "open fridge 1", "look", "inventory", "go")
CHATML = (
    "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<|end|>", pad_token="<|pad|>")


@pytest.fixture(scope="session")
def chat_tokenizer(tokenizer: Any) -> Any:
    chat = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tokenizer.backend_tokenizer.to_str()),
        eos_token="<|end|>",
        pad_token="<|pad|>",
    )
    chat.chat_template = CHATML
    return chat


@pytest.fixture(scope="session")
def model(tokenizer: Any) -> Any:
    # An initializer_range far from uniform, so that a wrong mask or position shows.
    options = {"num_key_value_heads": 2, "max_position_embeddings": 1024, "initializer_range": 0.3}
    return tiny_llama(tokenizer, 32, intermediate_size=64, **options).eval()


@pytest.fixture(scope="session")
def make_turn() -> Callable[..., Turn]:
    def make(steps: int = 2, seed: int = 0, **fields: Any) -> Turn:
        history = tuple(Exchange(f"You see a egg {i}.", ACTIONS[i % len(ACTIONS)]) for i in range(steps))
        given = {
            "family": "household",
            "goal": "put some apple on the desk.",
            "observation": "You are in the middle of a room.",
            "admissible": ACTIONS,
            "history": history,
            "seed": seed,
        }
        return Turn(**{**given, **fields})

    return make


@pytest.fixture(autouse=True)
def _user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """`sample_policies` and `broken_policies` can be imported, as a user's modules can."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
