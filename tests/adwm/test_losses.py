"""The objective's terms in cases where their value is known."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from worldline.adwm.ensemble import windows
from worldline.adwm.episodes import EpisodeData, encode, facts_of, read_episode
from worldline.adwm.fit import Fitted
from worldline.adwm.losses import balance, diffusion_loss, diversity_loss, losses, naming_loss, paper_head_losses, total
from worldline.adwm.model import PRESETS, WorldModel
from worldline.types import Trajectory


@pytest.fixture(scope="module")
def model(log: list[Trajectory]) -> WorldModel:
    torch.manual_seed(0)
    return WorldModel(PRESETS["small"], facts_of(log)).eval()


@pytest.fixture(scope="module")
def data(model: WorldModel, log: list[Trajectory], fitted: Fitted) -> list[EpisodeData]:
    return [
        read_episode(model, episode, n, fitted.ensemble.log_model.outcome_features)
        for n, episode in enumerate(log[:12])
    ]


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


def test_losses_are_means_over_real_steps(model: WorldModel, data: list[EpisodeData]) -> None:
    """Two episodes in a batch: each head's loss is the step-weighted mean of the two alone."""
    pair = losses(model, encode(model, data[:2]), noise())
    alone = [losses(model, encode(model, [one]), noise()) for one in data[:2]]
    steps = [len(one) for one in data[:2]]
    for name in ("reward", "termination"):
        expected = sum(n * terms[name].item() for n, terms in zip(steps, alone, strict=True)) / sum(steps)
        assert pair[name].item() == pytest.approx(expected, rel=1e-3)


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
    whole = [read_episode(model, episode, n, None) for n, episode in enumerate(log[:6])]
    batch = encode(model, windows(whole, model))
    ends = batch.ended[batch.real]
    negatives = (ends == 0).float().mean().item()
    expected = 2 * negatives * 0.6931 if ends.sum() > 0 else 0.6931
    assert paper_head_losses(model, batch)["termination"].item() == pytest.approx(expected, rel=1e-3)


def test_total_weighs_the_terms(model: WorldModel, data: list[EpisodeData]) -> None:
    terms = {"diffusion": torch.tensor(1.0), "inverse": torch.tensor(2.0), "diversity": torch.tensor(3.0)}
    assert total(terms).item() == pytest.approx(1.0 + 0.5 * 2.0 + 0.1 * 3.0)
