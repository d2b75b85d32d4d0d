"""Weights of response tokens against the means they stand for, spelled out."""

import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from worldline.paw.aggregation import token_weights

rows = st.lists(st.lists(st.floats(-3, 3), min_size=1, max_size=6), min_size=1, max_size=8)


@given(rows, st.data())
def test_each_way_is_the_mean_it_says(losses: list[list[float]], data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(range(len(losses))), min_size=1, unique=True))
    lengths = torch.tensor([len(tokens) for tokens in losses])
    flat = torch.tensor([loss for tokens in losses for loss in tokens], dtype=torch.float64)
    members = [losses[index] for index in chosen]
    expected = {
        "token": statistics.fmean(loss for tokens in members for loss in tokens),
        "sequence": statistics.fmean(statistics.fmean(tokens) for tokens in members),
        "constant": sum(sum(tokens) for tokens in members) / (len(members) * 5),
    }
    for how, value in expected.items():
        weights = token_weights(lengths, chosen, how, constant=5)
        assert float((weights.double() * flat).sum()) == pytest.approx(value, abs=1e-5)
