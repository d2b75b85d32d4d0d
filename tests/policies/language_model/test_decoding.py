"""Decoding with caches that grow: a response is its own row's, whoever shares the batch."""

from typing import Any

import pytest
import torch

from worldline.policies.language_model.decoding import Sampling, Steps, generate
from worldline.policies.language_model.forward import read
from worldline.types import uniform

PROMPTS = [[5, 9, 2, 7, 1, 3], [4, 8], [6, 1, 1, 2]]


def test_a_response_does_not_depend_on_when_others_leave(model: Any) -> None:
    how = Sampling(set(range(40)), 16, 1.0)
    with torch.inference_mode():
        alone = [generate(model, read(model, [prompt]), [at], how)[0] for at, prompt in enumerate(PROMPTS)]
        together = generate(model, read(model, PROMPTS), [0, 1, 2], how)
    assert len({len(response.ids) for response in alone}) > 1
    assert [response.ids for response in together] == [response.ids for response in alone]


def test_tokens_are_drawn_one_by_one_from_what_the_whole_sequence_says(model: Any) -> None:
    """Against a pass over prompt and response, without a cache, and the draws of the row's seed."""
    with torch.inference_mode():
        (response,) = generate(model, read(model, [PROMPTS[0]]), [17], Sampling(set(), 9, 0.7))
        logits = model(torch.tensor([[*PROMPTS[0], *response.ids]])).logits[0, len(PROMPTS[0]) - 1 : -1]
    probabilities = torch.softmax(logits.double() / 0.7, -1)
    for place, (token, row) in enumerate(zip(response.ids, probabilities, strict=True)):
        draw, cumulative = uniform(17, "token", place), row.cumsum(0)
        assert cumulative[token] > draw
        assert token == 0 or cumulative[token - 1] <= draw
        assert response.logprobs[place] == pytest.approx(row[token].log().item(), abs=1e-4)


def test_steps_go_on_where_rows_were_kept(model: Any) -> None:
    tokens = torch.randint(0, 40, (6, len(PROMPTS)), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        steps, rows = Steps(model, read(model, PROMPTS)), torch.arange(len(PROMPTS))
        for place, now in enumerate(tokens):
            if place == 3:
                rows = torch.tensor([2, 0])
                steps.keep(rows)
            actual = steps.read(now[rows])
            for at, row in enumerate(rows.tolist()):
                whole = torch.tensor([[*PROMPTS[row], *tokens[: place + 1, row].tolist()]])
                torch.testing.assert_close(actual[at], model(whole).logits[0, -1], rtol=1e-4, atol=1e-4)
