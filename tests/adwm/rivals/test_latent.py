"""The rivals on data with a closed-form optimum."""

import pytest
import torch

from worldline.adwm.episodes import read_episode
from worldline.adwm.fit import Fitted
from worldline.adwm.rivals.latent import SPAN, JointDenoiser, Neighbours, Pairs, Regressor, pairs


def linear_pairs(n: int = 3000) -> Pairs:
    """z' = A h + B a + 0.3 noise."""
    generator = torch.Generator().manual_seed(0)
    h, a = torch.randn(n, 3, generator=generator), torch.randn(n, 2, generator=generator)
    z = 0.5 * h[:, :2] - 0.7 * a + 0.3 * torch.randn(n, 2, generator=generator)
    return Pairs(h, a, z, torch.cat([z.repeat(1, SPAN), a.repeat(1, SPAN)], 1))


def trained(rival: Regressor | JointDenoiser, data: Pairs, steps: int) -> None:
    optimizer = torch.optim.Adam(rival.parameters(), lr=3e-3)
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        rows = torch.randint(0, len(data.h), (256,), generator=generator)
        batch = Pairs(data.h[rows], data.action[rows], data.after[rows], data.ahead[rows])
        optimizer.zero_grad()
        rival.loss(batch, generator).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        optimizer.step()


def test_the_regressor_learns_mean_and_spread() -> None:
    torch.manual_seed(0)
    data, rival = linear_pairs(), Regressor(3, 2, 2, 32)
    trained(rival, data, 400)
    mean, spread = rival(data.h, data.action)
    assert (mean - (0.5 * data.h[:, :2] - 0.7 * data.action)).pow(2).mean().sqrt() < 0.1
    assert spread.exp().mean().item() == pytest.approx(0.3, abs=0.05)
    noise = torch.ones(1, len(data.h), 2)
    assert torch.allclose(rival.next(data.h, data.action, noise), mean + spread.exp())


def test_the_joint_denoiser_samples_around_the_mean() -> None:
    torch.manual_seed(0)
    data, rival = linear_pairs(), JointDenoiser(3, 2, 2, 64, 50)
    trained(rival, data, 600)
    h, a = torch.tensor([[1.0, -1.0, 0.0]]).expand(400, -1), torch.tensor([[0.5, 0.5]]).expand(400, -1)
    noise = torch.randn(11, 400, 2, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        z = rival.next(h, a, noise)
    assert z.mean(0).tolist() == pytest.approx([0.15, -0.85], abs=0.3)


def test_neighbours_repeat_the_nearest_step() -> None:
    data, rival = linear_pairs(50), Neighbours(50, 5, 2)
    rival.memorise(data)
    nobody = torch.zeros(50, 50, dtype=torch.bool)
    assert rival.nearest(data.h, data.action, nobody).tolist() == list(range(50))
    others = rival.nearest(data.h, data.action, torch.eye(50, dtype=torch.bool))
    assert all(neighbour != row for row, neighbour in enumerate(others.tolist())), "nobody is answered by itself"
    assert torch.equal(rival.answers, data.after)


def test_pairs_cover_every_step_in_order(fitted: Fitted) -> None:
    member, episodes = fitted.ensemble.members[0], fitted.ensemble.episodes[:5]
    data = [read_episode(member.model, episode, n) for n, episode in enumerate(episodes)]
    pair = pairs(member.model, data)
    assert len(pair.h) == sum(len(episode) for episode in episodes)
    assert torch.allclose(pair.after, member.decoder.latents[: len(pair.after)], atol=1e-4)
    latent, action = member.model.architecture.latent, member.model.architecture.action
    assert torch.equal(pair.ahead[:, :latent], pair.after)
    assert pair.ahead.shape[1] == SPAN * (latent + action)
