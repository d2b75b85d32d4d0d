import pytest
import torch

from worldline.sft.muon import Muon, orthogonal


@pytest.mark.parametrize("shape", [(16, 16), (48, 12), (12, 48)])
def test_steps_equal_those_of_torch_up_to_its_bfloat16(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    start, gradients = torch.randn(shape), torch.randn(3, *shape)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    optimisers = Muon([ours], lr=0.1, weight_decay=0.01), torch.optim.Muon([theirs], lr=0.1, weight_decay=0.01)
    for gradient in gradients:
        ours.grad, theirs.grad = gradient.clone(), gradient.clone()
        for optimiser in optimisers:
            optimiser.step()
    moved = (theirs - start).norm()
    assert (ours - theirs).norm() < 0.02 * moved


def test_singular_values_come_near_one_and_the_directions_stay() -> None:
    torch.manual_seed(1)
    matrix = torch.randn(20, 30, dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    core = left.T @ orthogonal(matrix) @ right.T
    assert torch.allclose(core, torch.diag(core.diagonal()), atol=1e-9)
    assert core.diagonal().min() > 0.5 and core.diagonal().max() < 1.5


def test_a_matrix_without_gradient_stays() -> None:
    matrix = torch.nn.Parameter(torch.ones(3, 3))
    Muon([matrix], lr=0.1, weight_decay=0.5).step()
    assert torch.equal(matrix, torch.ones(3, 3))
