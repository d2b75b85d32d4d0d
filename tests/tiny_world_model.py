"""Fixtures: a small log of the tiny household, and a world model fitted on it."""

import pytest
import torch
from hypothesis import settings
from tiny_house import play, tiny_house

from brief_fits import BRIEF, make_fits_brief
from worldline.adwm.fit import FitSettings, Fitted, fit_ensemble
from worldline.adwm.model import PRESETS
from worldline.types import Trajectory, World

__all__ = ["fitted", "house", "log", "one_thread"]
settings.register_profile("unhurried", deadline=None, max_examples=60)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def house() -> World:
    return tiny_house()


@pytest.fixture(scope="session")
def log(house: World) -> list[Trajectory]:
    """72 episodes of three policies on the same 24 tasks."""
    return [episode for epsilon in (0.2, 0.6, 1.0) for episode in play(house, epsilon, 24)]


@pytest.fixture(scope="session")
def fitted(log: list[Trajectory]) -> Fitted:
    """A world model of the log: two members, a few epochs. Smaller than `small`; what it encodes is as wide."""
    torch.set_num_threads(1)
    kept = PRESETS["small"].model_dump(include={"width", "encoder_hidden", "latent", "diffusion_steps"})
    with pytest.MonkeyPatch.context() as brief:
        make_fits_brief(brief, 80)
        brief.setitem(PRESETS, "small", BRIEF.model_copy(update=kept))
        return fit_ensemble(log, FitSettings(members=2, epochs=3, text_steps=150, replayed_episodes=4))
