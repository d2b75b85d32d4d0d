"""Both gradients against autograd on a loss written row by row, and two that are opposite by construction."""

from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from test_update import CONFIG, KIND, RHO, naive
from tiny import random_experience, tiny_lm

from worldline.paw.gradient_angle import gradient_angle
from worldline.paw.model import LearnerConfig, wrap
from worldline.paw.rows import StepRow


def test_norms_and_cosine_are_those_of_the_two_losses_alone() -> None:
    experience = random_experience()
    without_world = replace(experience, world_weights=torch.zeros_like(experience.world_weights))
    together, policy = (torch.cat([g.flatten() for g in naive(e)[1]]) for e in (experience, without_world))
    world = together - policy
    learner = wrap(tiny_lm(), LearnerConfig())
    optimizer = torch.optim.SGD(learner.parameters(), lr=1.0)
    before = [weight.detach().clone() for weight in learner.parameters()]
    rows = range(len(experience.rows))
    angle = gradient_angle(learner, optimizer, experience, rows, CONFIG, Accelerator(cpu=True), kind=KIND, rho=RHO)
    assert angle["grad_norm_policy"] == pytest.approx(float(policy.norm()), rel=1e-3)
    assert angle["grad_norm_world"] == pytest.approx(float(world.norm()), rel=1e-3)
    cosine = torch.nn.functional.cosine_similarity(policy, world, dim=0)
    assert angle["grad_cosine"] == pytest.approx(float(cosine), abs=1e-3)
    assert all(weight.grad is None for weight in learner.parameters())
    assert all(torch.equal(p, q) for p, q in zip(before, learner.parameters(), strict=True))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_action_that_says_what_the_world_says_pulls_the_same_way_or_the_other(sign: float) -> None:
    """Response and observation are the same token after the same context, so the gradients are parallel."""
    row = StepRow(0, 0, (3, 4), (5,), (), (), (), False)
    spoken = StepRow(1, 0, (3,), (4,), (5,), (True,), (False,), False)
    experience = replace(
        random_experience(1),
        rows=[row, spoken],
        advantages=torch.tensor([sign, 0.0]),
        world_weights=torch.tensor([0.0, 1.0]),
        old_logprobs=None,
        reference_logprobs=None,
    )
    learner = wrap(tiny_lm(), LearnerConfig())
    optimizer = torch.optim.SGD(learner.parameters(), lr=1.0)
    config = CONFIG.model_copy(update={"entropy": 0.0, "kl": 0.0})
    angle = gradient_angle(learner, optimizer, experience, [0, 1], config, Accelerator(cpu=True), kind="ce")
    assert angle["grad_cosine"] == pytest.approx(sign, abs=1e-4)


def test_without_targets_there_is_no_angle() -> None:
    experience = random_experience()
    experience = replace(experience, world_weights=torch.zeros_like(experience.world_weights))
    learner = wrap(tiny_lm(), LearnerConfig())
    optimizer = torch.optim.SGD(learner.parameters(), lr=1.0)
    angle = gradient_angle(learner, optimizer, experience, [0, 1, 2], CONFIG, Accelerator(cpu=True))
    assert (angle["grad_norm_world"], angle["grad_cosine"]) == (0.0, 0.0)
