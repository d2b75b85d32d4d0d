"""The shipped recipes are valid, and say what the paper's appendix A.1 says."""

from pathlib import Path

import pytest

from worldline.command_line import read
from worldline.paw.recipe import TrainConfig

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize(
    ("name", "steps", "mini_batch", "kl", "episodes"),
    [("alfworld", 50, 256, 0.01, 128), ("webshop", 15, 64, 0.01, 128), ("searchqa", 4, 512, 0.001, 1280)],
)
def test_recipes(name: str, steps: int, mini_batch: int, kl: float, episodes: int) -> None:
    config = read(TrainConfig, [str(RECIPES / f"{name}.yaml"), "--model", "m", "--out", "o", "--update.lr", "0.5"])
    assert (config.max_steps, config.update.mini_batch, config.update.kl) == (steps, mini_batch, kl)
    assert config.groups * config.group_size == episodes
    assert config.update.lr == 0.5  # flags win
    assert config.stepping.entropy == 0.001  # the preset's
    assert config.world.alpha == 0.75
    assert config.world.rho == 0.2


def test_ppo_plays_as_many_episodes_of_different_tasks() -> None:
    config = read(TrainConfig, ["household", "--model", "m", "--out", "o", "--algo", "ppo"])
    assert config.shape == (128, 1)
    assert read(TrainConfig, ["household", "--model", "m", "--out", "o"]).shape == (16, 8)


def test_an_entropy_bonus_that_is_given_beats_the_preset() -> None:
    given = ["household", "--model", "m", "--out", "o", "--preset", "verl_agent", "--update.entropy", "0"]
    assert read(TrainConfig, given).stepping.entropy == 0.0
