"""The scores behind `bench noise`: every observation token's log-probability, beside a plain forward pass."""

import pytest
import torch

from paw.tiny import random_experience, tiny_lm
from worldline.bench.noise import _row, scored
from worldline.paw.model import Learner


def test_observation_tokens_are_scored_as_the_model_sees_them() -> None:
    learner, rows = Learner(tiny_lm()).eval(), list(random_experience(6).rows)
    expected = []
    for row in rows:
        tokens = torch.tensor([row.prompt + row.response + row.continuation])
        logits = learner.lm(tokens).logits.log_softmax(-1)[0]
        first = len(row.prompt) + len(row.response)
        expected += [float(logits[first + i - 1, token].detach()) for i, token in enumerate(row.continuation)]
    for budget in (8, 4096):
        logprob, noisy = scored(learner, rows, budget)
        assert sorted(logprob.tolist()) == pytest.approx(sorted(expected), abs=1e-4)
        assert not noisy.any()


def test_mae_leaves_hopeless_tokens_alone_and_cross_entropy_does_not() -> None:
    logprob = torch.tensor([0.9, 0.15, 0.001, 0.002]).log()
    noisy = torch.tensor([0.0, 0.0, 1.0, 1.0])
    shares = {kind: _row(logprob, noisy, kind, 0.2)["noise_share"] for kind in ("ce", "mae", "cmae")}
    assert shares["ce"] == pytest.approx((0.999 + 0.998) / (0.1 + 0.85 + 0.999 + 0.998))
    assert shares["mae"] < shares["cmae"] < shares["ce"]
