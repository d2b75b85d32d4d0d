"""A tiny random Llama and a random update for the tests of the training side."""

import random
from typing import Any

import torch

from tiny_llama import tiny_llama
from worldline.paw.gradient import Experience
from worldline.paw.rows import StepRow

VOCABULARY = 61


def tiny_lm(seed: int = 0) -> Any:
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    # An initializer_range so large that probabilities fall on both sides of rho.
    options = {"max_position_embeddings": 128, "tie_word_embeddings": True, "initializer_range": 0.5}
    return tiny_llama(VOCABULARY, 16, seed=seed, intermediate_size=32, **heads, **options).eval()


def random_experience(count: int = 14, seed: int = 0, ppo: bool = False) -> Experience:
    """Ragged rows, some of them beginnings of others, a few without world weight."""
    rng = random.Random(seed)

    def tokens(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.choices(range(1, VOCABULARY), k=rng.randint(low, high)))

    rows: list[StepRow] = []
    prompt = tokens(2, 6)
    for index in range(count):
        trajectory = index // 4
        response, answer = tokens(1, 5), tokens(0, 9)
        rows.append(
            StepRow(
                trajectory, index % 4, prompt, response, answer, (True,) * len(answer), (False,) * len(answer), False
            )
        )
        prompt = prompt + response + answer + tokens(1, 2) if index % 4 in (0, 1) else tokens(2, 9)
    generator = torch.Generator().manual_seed(seed)
    size = sum(len(row.response) for row in rows)

    def flat() -> torch.Tensor:
        return torch.randn(size, generator=generator)

    weights = torch.rand(count, generator=generator) * torch.tensor([float(row.targets > 0) for row in rows])
    weights[::5] = 0.0
    return Experience(
        rows=rows,
        advantages=flat(),
        world_weights=weights,
        old_logprobs=-4 + 0.3 * flat(),
        reference_logprobs=-4 + 0.3 * flat(),
        old_values=flat() if ppo else None,
        value_targets=flat() if ppo else None,
    )
