"""One token from logits and a draw, against the definition: the first token whose cumulative probability passes it."""

import numpy as np
import pytest
import torch

from worldline.policies.language_model.sampling import sample


@pytest.mark.parametrize("temperature", [1.0, 0.3, 2.0])
def test_the_token_at_which_the_probabilities_pass_the_draw(temperature: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(200, 17, generator=generator)
    draws = torch.rand(200, generator=generator, dtype=torch.float64)
    drawn = sample(logits, draws, temperature)
    for row, draw, token, logprob, entropy in zip(
        logits.double().numpy(), draws.tolist(), *(x.tolist() for x in vars(drawn).values()), strict=True
    ):
        weights = np.exp(row / temperature - (row / temperature).max())
        probabilities = weights / weights.sum()
        assert token == int((np.cumsum(probabilities) <= draw).sum())
        assert logprob == pytest.approx(np.log(probabilities[token]), abs=1e-5)
        assert entropy == pytest.approx(-(probabilities * np.log(probabilities)).sum(), abs=1e-5)


def test_at_temperature_zero_the_likeliest() -> None:
    logits = torch.tensor([[0.0, 3.0, 3.0, 1.0], [2.0, 1.0, 0.0, -torch.inf]])
    drawn = sample(logits, torch.tensor([0.99, 0.0], dtype=torch.float64), 0.0)
    assert drawn.tokens.tolist() == [1, 0]
    assert drawn.logprobs.tolist() == [0.0, 0.0]


def test_what_is_impossible_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]).repeat(1000, 1)
    drawn = sample(logits, torch.arange(1000, dtype=torch.float64) / 1000, 1.0)
    assert drawn.tokens.tolist() == [1] * 500 + [3] * 500
