"""Prompts in passes of few shapes: every prompt once, within the budget, and read as one would alone."""

import copy
from typing import Any

import pytest
import torch

from worldline.policies.language_model import attention
from worldline.policies.language_model.forward import read
from worldline.policies.language_model.reader import PromptReader, length_bucket, parts, reading_rows
from worldline.policies.language_model.recording import Recorder
from worldline.policies.language_model.stack import TransformersStack, stack_of

PROMPTS = [[5, 9, 2, 7, 1, 3], [4, 8], [6, 1, 1, 2], [3]]


@pytest.mark.parametrize("budget", [64, 1000, 5000])
def test_every_prompt_is_in_one_part_of_the_budget(budget: int) -> None:
    lengths = torch.randint(1, 300, (70,), generator=torch.Generator().manual_seed(0)).tolist()
    made = parts(lengths, budget)
    assert sorted(at for part in made for at in part.members) == list(range(70))
    for part in made:
        assert max(lengths[at] for at in part.members) <= part.length
        assert len(part.members) <= part.rows
        assert part.rows * part.length <= max(budget, part.length)
    assert all(part.rows == len(part.members) for part in made[:-1])  # only the last has rows to spare
    assert [part.length for part in made] == sorted((part.length for part in made), reverse=True)


def test_buckets_hold_what_they_are_for() -> None:
    assert [length_bucket(length) for length in (1, 64, 65)] == [64, 64, 128]
    assert [reading_rows(rows) for rows in (1, 2, 3, 5, 8, 9, 17)] == [1, 2, 4, 8, 8, 16, 24]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("kind", ["sdpa", attention.NAME])
def test_reading_in_place_says_what_reading_with_a_mask_says(model: Any, kind: str, own: bool) -> None:
    model = copy.deepcopy(model)
    model.set_attn_implementation(kind)
    config = model.config
    cache = torch.zeros(config.num_hidden_layers, 2, 8, config.num_key_value_heads, 64, config.head_dim)
    stack = TransformersStack(model) if own else stack_of(model)
    with torch.inference_mode():
        reader = PromptReader(model, stack, cache, Recorder(torch.device("cpu")))
        for prompts in (PROMPTS[::-1], PROMPTS):  # the second time something else lies there
            reader.read(prompts)
            expected = [read(model, [prompt]) for prompt in prompts]
            for row, alone in enumerate(expected):
                torch.testing.assert_close(reader.logits[row], alone.logits[0], rtol=1e-4, atol=1e-5)
                for layer, (keys, values) in zip(alone.cache.layers, reader.cache, strict=True):
                    length = len(prompts[row])
                    torch.testing.assert_close(keys[row, :, :length], layer.keys[0], rtol=1e-4, atol=1e-5)
                    torch.testing.assert_close(values[row, :, :length], layer.values[0], rtol=1e-4, atol=1e-5)
