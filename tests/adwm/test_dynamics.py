"""Where the next latent comes from."""

import pytest
import torch

from worldline.adwm.dynamics import next_latents, noise_draws, seeded_noise
from worldline.adwm.fit import Fitted
from worldline.adwm.imagination import IMAGINATION_PRESETS, ImaginationConfig
from worldline.types import WorldlineError


def test_noise_is_what_is_drawn(fitted: Fitted) -> None:
    member = fitted.ensemble.members[0]
    noise = seeded_noise(ImaginationConfig("noise"), 5, 32, seed=1)
    h, action = torch.zeros(5, 64), torch.zeros(5, 32)
    assert torch.equal(next_latents(member.model, None, ImaginationConfig("noise"), h, action, noise), noise[0])
    sampled = next_latents(member.model, None, ImaginationConfig(), h, action, noise)
    assert not torch.equal(sampled, noise[0])


def test_each_way_draws_as_much_noise_as_it_takes() -> None:
    draws = {name: noise_draws(config) for name, config in IMAGINATION_PRESETS.items()}
    assert draws == {"adwm": 1, "adwm-noise": 1, "adwm-paper": 51, "wm-ar": 11, "wm-joint": 11, "wm-knn": 11}


def test_a_rival_that_was_not_fitted_is_named(fitted: Fitted) -> None:
    noise = seeded_noise(ImaginationConfig("wm-ar"), 1, 32, seed=1)
    with pytest.raises(WorldlineError, match="wm-ar was not fitted with this world model: fit it with --rivals"):
        next_latents(
            fitted.ensemble.members[0].model,
            None,
            ImaginationConfig("wm-ar"),
            torch.zeros(1, 64),
            torch.zeros(1, 32),
            noise,
        )
