"""The objective's terms in cases that have a closed form."""

import dataclasses
import math

import pytest
import torch
from torch.nn import functional as F

from worldline.adwm.episodes import EpisodeData, encode, read_episode, windows
from worldline.adwm.fitting.losses import (
    balance,
    contrast_loss,
    diffusion_loss,
    diversity_loss,
    head_losses,
    losses,
    naming_loss,
    total,
)
from worldline.adwm.fitting.survey import facts_of
from worldline.adwm.model import PRESETS, WorldModel
from worldline.types import Trajectory


@pytest.fixture(scope="module")
def model(log: list[Trajectory]) -> WorldModel:
    torch.manual_seed(0)
    return WorldModel(PRESETS["small"], facts_of(log)).eval()


@pytest.fixture(scope="module")
def data(model: WorldModel, log: list[Trajectory]) -> list[EpisodeData]:
    return [read_episode(model, episode, n) for n, episode in enumerate(log[:12])]


def noise() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def test_an_untrained_denoiser_has_unit_loss(model: WorldModel, data: list[EpisodeData]) -> None:
    """It predicts zero, and the noise has unit variance."""
    assert diffusion_loss(model, encode(model, data), noise(), 0.1).item() == pytest.approx(1.0, abs=0.03)


def test_encoding_does_not_depend_on_who_shares_the_batch(model: WorldModel, data: list[EpisodeData]) -> None:
    together = encode(model, data)
    for row, one in enumerate(data):
        alone, steps = encode(model, [one]), len(one)
        assert torch.allclose(together.z[row, : steps + 1], alone.z[0], atol=1e-4)
        assert torch.allclose(together.h[row, : steps + 1], alone.h[0], atol=1e-4)
        assert together.real[row].sum() == steps
        assert torch.equal(together.ended[row, :steps], alone.ended[0])


def test_heads_are_means_over_real_steps(model: WorldModel, data: list[EpisodeData]) -> None:
    """Two episodes in a batch, no end in either: the loss is the step-weighted mean of the two alone."""
    going = [dataclasses.replace(one, ended=0 * one.ended) for one in data[:2]]
    pair = losses(model, encode(model, going), noise())["termination"]
    alone = [losses(model, encode(model, [one]), noise())["termination"] for one in going]
    steps = [len(one) for one in going]
    expected = sum(n * loss.item() for n, loss in zip(steps, alone, strict=True)) / sum(steps)
    assert pair.item() == pytest.approx(expected, rel=1e-3)


def test_contrast_is_the_cross_entropy_of_the_right_answer(model: WorldModel, data: list[EpisodeData]) -> None:
    """By brute force over all pairs of the batch, answers of equal text being one."""
    batch = encode(model, data[:4])
    real = batch.real
    expected = model.expectation(batch.h[:, :-1][real], batch.action[real])
    after, same = batch.z[:, 1:][real], batch.same_after[real].tolist()
    total_loss = 0.0
    for row, query in enumerate(expected):
        logits = [float(query @ other) / after.shape[-1] ** 0.5 for other in after]
        right = sum(math.exp(x) for x, number in zip(logits, same, strict=True) if number == same[row])
        total_loss -= math.log(right / sum(map(math.exp, logits)))
    assert contrast_loss(model, batch).item() == pytest.approx(total_loss / len(same), rel=1e-4)
    answers = [text for one in data[:4] for text in [t.ids.tobytes() for t in one.observations[1:]]]
    assert len(set(same)) == len(set(answers)) < len(answers)


def test_diversity_is_the_mean_squared_cosine_of_pairs() -> None:
    z = torch.zeros(3, 3, 2)
    z[0, :, 0] = z[1, :, 0] = 2.0
    z[2, :, 1] = 1.0
    real = torch.ones(3, 2, dtype=torch.bool)
    assert diversity_loss(z, real).item() == pytest.approx(1 / 3)
    opposite = z.clone()
    opposite[1] *= -1
    assert diversity_loss(opposite, real).item() == 0.0


def test_naming_treats_equal_texts_as_one(model: WorldModel, data: list[EpisodeData]) -> None:
    """A query equal to its own action scores well; one text for all actions leaves nothing to tell."""
    batch = encode(model, data)
    query = 50 * F.normalize(batch.action, dim=-1)
    scaled = dataclasses.replace(batch, action=F.normalize(batch.action, dim=-1) * 10)
    assert naming_loss(model, scaled, query) < naming_loss(model, scaled, torch.zeros_like(query))
    same = dataclasses.replace(batch, same=torch.zeros_like(batch.same))
    assert naming_loss(model, same, query).item() == pytest.approx(0.0, abs=1e-5)


def test_balance_is_negatives_per_positive() -> None:
    assert balance(torch.tensor([1.0, 0.0, 0.0, 0.0])).item() == 3.0
    assert balance(torch.zeros(4)).item() == 1.0
    assert balance(torch.ones(4)).item() == 1.0


def test_the_papers_heads_weigh_both_classes_alike(log: list[Trajectory]) -> None:
    """At logit zero, balanced BCE is 2 log 2 times the share of negatives, whatever the rate of ends."""
    torch.manual_seed(0)
    actions = tuple(dict.fromkeys(step.action for episode in log for step in episode.steps))[:256]
    model = WorldModel(PRESETS["paper"], facts_of(log), actions).eval()
    for head in (model.termination_head, model.reward_head):
        torch.nn.init.zeros_(list(head.parameters())[-2])
        torch.nn.init.zeros_(list(head.parameters())[-1])
    whole = [read_episode(model, episode, n) for n, episode in enumerate(log[:6])]
    batch = encode(model, windows(whole, model))
    ends = batch.ended[batch.real]
    negatives = (ends == 0).float().mean().item()
    expected = 2 * negatives * 0.6931 if ends.sum() > 0 else 0.6931
    assert head_losses(model, batch)["termination"].item() == pytest.approx(expected, rel=1e-3)


def test_total_weighs_the_terms(model: WorldModel, data: list[EpisodeData]) -> None:
    terms = {"diffusion": torch.tensor(1.0), "inverse": torch.tensor(2.0), "diversity": torch.tensor(3.0)}
    assert total(terms).item() == pytest.approx(1.0 + 0.5 * 2.0 + 0.1 * 3.0)
