"""Diffusion on Gaussian data, where the optimal denoiser, the samples and the tilted law have a closed form."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from worldline.adwm.diffusion import (
    Noise,
    annealed,
    classifier_free,
    clipped,
    continuation_gradient,
    cosine_schedule,
    denoised,
    guided,
    noised,
    reverse_step,
    sample,
)

MEAN = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
ROOT = torch.tensor([[1.0, 0.0, 0.0], [0.6, 0.7, 0.0], [-0.3, 0.2, 0.5]], dtype=torch.float64)
COV = ROOT @ ROOT.T


def optimal(mean: Tensor, cov: Tensor, abar: Tensor) -> Noise:
    """eps* = sqrt(1-abar) C_k^-1 (z^k - sqrt(abar) m), C_k = abar S + (1-abar) I: minus the score, scaled."""

    def predict(zk: Tensor, k: Tensor) -> Tensor:
        level = abar[k[0]]
        inverse = torch.linalg.inv(level * cov + (1 - level) * torch.eye(len(mean), dtype=cov.dtype))
        return (1 - level).sqrt() * (zk - level.sqrt() * mean) @ inverse

    return predict


def draw(predict: Noise, abar: Tensor, *, steps: int, eta: float, n: int = 12_000) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    noise = torch.randn(steps, n, 3, generator=generator, dtype=torch.float64) if eta > 0 else None
    z = sample(predict, start, abar, steps=steps, eta=eta, noise=noise)
    return z.mean(0), torch.cov(z.T)


def test_schedule_falls_from_one_to_almost_nothing() -> None:
    abar = cosine_schedule(50)
    assert abar.shape == (51,)
    assert abar[0] == 1
    assert (abar.diff() < 0).all()
    assert 0 < abar[-1] < 1e-4
    middle = np.cos((0.5 + 0.008) / 1.008 * np.pi / 2) ** 2 / np.cos(0.008 / 1.008 * np.pi / 2) ** 2
    assert abar[25].item() == pytest.approx(middle, rel=1e-9)


def test_noising_has_the_marginal_of_the_forward_process_and_denoising_undoes_it() -> None:
    abar = cosine_schedule(50)
    z = MEAN + torch.randn(100_000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) @ ROOT.T
    eps = torch.randn(z.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    k = torch.full((len(z),), 20)
    zk = noised(z, k, eps, abar)
    assert torch.allclose(zk.mean(0), abar[20].sqrt() * MEAN, atol=0.02)
    assert torch.allclose(torch.cov(zk.T), abar[20] * COV + (1 - abar[20]) * torch.eye(3), atol=0.05)
    assert torch.allclose(denoised(zk, eps, abar[k].unsqueeze(-1)), z, atol=1e-9)


def test_the_optimal_denoiser_minimises_the_training_loss() -> None:
    """Regressing eps on z^k by least squares finds the closed form."""
    abar = cosine_schedule(50)
    generator = torch.Generator().manual_seed(3)
    z = MEAN + torch.randn(200_000, 3, dtype=torch.float64, generator=generator) @ ROOT.T
    eps = torch.randn(z.shape, dtype=torch.float64, generator=generator)
    k = torch.full((len(z),), 15)
    zk = noised(z, k, eps, abar)
    design = torch.cat([zk, torch.ones(len(zk), 1, dtype=torch.float64)], 1)
    fitted = design @ torch.linalg.lstsq(design, eps).solution
    assert (fitted - optimal(MEAN, COV, abar)(zk, k)).abs().max() < 0.05


@pytest.mark.parametrize(("steps", "eta"), [(250, 1.0), (250, 0.0)], ids=["ddpm", "ddim"])
def test_samples_have_the_mean_and_covariance_of_the_data(steps: int, eta: float) -> None:
    abar = cosine_schedule(250)
    mean, cov = draw(optimal(MEAN, COV, abar), abar, steps=steps, eta=eta)
    assert torch.allclose(mean, MEAN, atol=0.05)
    assert torch.allclose(cov, COV, atol=0.05)


@pytest.mark.parametrize("steps", [10, 50])
def test_few_ddim_steps_follow_the_linear_recursion(steps: int) -> None:
    """On one-dimensional Gaussian data every step is an affine map, composed here by hand."""
    abar = cosine_schedule(50)
    mean, std = 0.7, 0.4
    slope, shift = 1.0, 0.0
    ks = np.linspace(50, 0, steps + 1).round().astype(int)
    for k, lower in itertools.pairwise(ks):
        a, b = abar[k].item(), abar[lower].item()
        gain = np.sqrt(1 - a) / (a * std**2 + 1 - a)
        factor = np.sqrt(b / a) * (1 - np.sqrt(1 - a) * gain) + np.sqrt(1 - b) * gain
        offset = (np.sqrt(b / a) * np.sqrt(1 - a) - np.sqrt(1 - b)) * gain * np.sqrt(a) * mean
        slope, shift = factor * slope, factor * shift + offset
    start = torch.linspace(-2, 2, 7, dtype=torch.float64).unsqueeze(1)
    model = optimal(torch.tensor([mean], dtype=torch.float64), torch.tensor([[std**2]], dtype=torch.float64), abar)
    assert torch.allclose(sample(model, start, abar, steps=steps), slope * start + shift, atol=1e-8)


def test_eta_one_is_the_ddpm_posterior() -> None:
    """Ho et al. 2020, equation (7): mean of q(z^{k-1} | z^k, z_0), variance beta~."""
    abar = cosine_schedule(50)
    k = 30
    alpha, beta = abar[k] / abar[k - 1], 1 - abar[k] / abar[k - 1]
    zk, eps = torch.tensor([[0.3, -1.0]], dtype=torch.float64), torch.tensor([[0.5, 0.2]], dtype=torch.float64)
    clean = (zk - (1 - abar[k]).sqrt() * eps) / abar[k].sqrt()
    mean = (abar[k - 1].sqrt() * beta * clean + alpha.sqrt() * (1 - abar[k - 1]) * zk) / (1 - abar[k])
    std = (beta * (1 - abar[k - 1]) / (1 - abar[k])).sqrt()
    noise = torch.tensor([[1.0, -2.0]], dtype=torch.float64)
    assert torch.allclose(reverse_step(zk, eps, abar[k], abar[k - 1], 1.0, noise), mean + std * noise, atol=1e-12)


def test_classifier_free_guidance_extrapolates_the_mean() -> None:
    """Two Gaussians of one covariance: the guided law is Gaussian with mean (1+w) m_c - w m_u."""
    abar = cosine_schedule(250)
    other, w = torch.tensor([0.0, -1.0, 0.0], dtype=torch.float64), 0.5
    model = guided(optimal(MEAN, COV, abar), optimal(other, COV, abar), abar, w=w)
    mean, cov = draw(model, abar, steps=250, eta=1.0)
    assert torch.allclose(mean, (1 + w) * MEAN - w * other, atol=0.05)
    assert torch.allclose(cov, COV, atol=0.05)


@pytest.mark.parametrize("eta", [0.0, 1.0])
def test_an_analytic_policy_tilts_the_gaussian_exactly(eta: float) -> None:
    """p(z) exp(alpha b.z) is Gaussian with mean m + alpha S b; with a linear log-policy (37) is exact."""
    abar = cosine_schedule(250)
    b, alpha = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64), 0.8
    plain = optimal(MEAN, COV, abar)
    model = guided(plain, plain, abar, alpha=torch.full_like(abar, alpha), log_policy=lambda z: z @ b)
    mean, cov = draw(model, abar, steps=250, eta=eta)
    assert torch.allclose(mean, MEAN + alpha * COV @ b, atol=0.05)
    assert torch.allclose(cov, COV, atol=0.05)


def test_continuation_gradient_is_the_closed_form() -> None:
    abar = cosine_schedule(50)
    b = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    k = torch.full((4,), 33)
    zk = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    g = continuation_gradient(zk, k, optimal(MEAN, COV, abar), lambda z: z @ b, abar)
    level = abar[33]
    jacobian = level.sqrt() * COV @ torch.linalg.inv(level * COV + (1 - level) * torch.eye(3, dtype=torch.float64))
    assert torch.allclose(g, (jacobian.T @ b).expand(4, 3), atol=1e-9)


def test_no_guidance_is_the_conditional_model_itself() -> None:
    abar = cosine_schedule(50)
    plain, other = optimal(MEAN, COV, abar), optimal(-MEAN, COV, abar)
    assert guided(plain, other, abar) is plain
    zero = guided(plain, other, abar, w=0.0, alpha=annealed(0.0, abar), log_policy=lambda z: z.sum(-1))
    start = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    assert torch.equal(sample(zero, start, abar, steps=10), sample(plain, start, abar, steps=10))


def test_guidance_is_off_where_the_estimate_is_worthless() -> None:
    abar = cosine_schedule(50)
    weights = annealed(0.1, abar)
    assert weights[0].item() == pytest.approx(0.1)
    assert weights[-1] < 1e-5


def test_clipping_shortens_only_long_gradients() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert torch.allclose(clipped(rows, 1.0), torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))


def test_a_bound_keeps_a_wrong_network_inside_the_data() -> None:
    abar = cosine_schedule(50)
    start = torch.randn(64, 3, generator=torch.Generator().manual_seed(6))

    def wrong(zk: Tensor, k: Tensor) -> Tensor:
        return zk + 0.5

    assert sample(wrong, start, abar, steps=50).abs().max() > 10
    assert sample(wrong, start, abar, steps=50, bound=3.0).abs().max() <= 3.0


def test_classifier_free_at_zero_ignores_the_unconditional_model() -> None:
    assert torch.equal(classifier_free(torch.ones(2, 2), torch.full((2, 2), 9.0), 0.0), torch.ones(2, 2))


def test_stochastic_sampling_without_noise_is_refused() -> None:
    abar = cosine_schedule(10)
    with pytest.raises(ValueError, match="noise"):
        sample(optimal(MEAN, COV, abar), torch.zeros(1, 3, dtype=torch.float64), abar, steps=5, eta=1.0)
