"""The shipped recipes are valid, and say what the paper's appendix A.1 says."""

from pathlib import Path

import pytest

from worldline import help_text
from worldline.command_line import read
from worldline.paw.recipe import TrainConfig
from worldline.types import InputError

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
    assert config.credit.penalty == "format"  # as the code base of the published figures has it
    assert config.world.alpha == 0.75
    assert config.world.rho == 0.2


def test_ppo_plays_as_many_episodes_of_different_tasks() -> None:
    config = read(TrainConfig, ["household", "--model", "m", "--out", "o", "--algo", "ppo"])
    assert config.shape == (128, 1)
    assert read(TrainConfig, ["household", "--model", "m", "--out", "o"]).shape == (16, 8)


@pytest.mark.parametrize(
    ("flags", "objective", "token_loss"),
    [
        (["--wm", "paw"], "cmae", "cmae"),
        (["--wm", "mae"], "mae", "mae"),
        (["--wm", "ce"], "ce", "ce"),
        (["--wm", "echo"], "echo", "ce"),
        (["--world.loss", "echo"], "echo", "ce"),
        (["--wm", "ce", "--world.loss", "mae"], "mae", "mae"),
    ],
)
def test_the_loss_of_the_world_follows_from_wm_unless_it_is_given(
    flags: list[str], objective: str, token_loss: str
) -> None:
    config = read(TrainConfig, ["household", "--model", "m", "--out", "o", *flags])
    assert (config.targets.loss, config.world_loss) == (objective, token_loss)


def test_training_needs_chance() -> None:
    """At temperature 0 an action has no log-probability; an evaluation may be greedy."""
    words = ["household", "--model", "m", "--out", "o"]
    with pytest.raises(InputError, match="^--rollout.temperature: training needs chance: give a number above 0"):
        read(TrainConfig, [*words, "--rollout.temperature", "0"])
    assert read(TrainConfig, [*words, "--evaluation.temperature", "0"]).evaluation.temperature == 0
    explained = help_text.usage(TrainConfig, "worldline train").partition("--rollout.temperature")[2]
    assert "above 0" in explained.partition("--")[0]


def test_a_recipe_written_before_the_new_settings_still_loads(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(
        "env: household\nwm: ce\nupdate: {lr: 1.0e-6, critic_lr: 1.0e-5, clip: 0.2, max_norm: 1.0}\n"
        "evaluation: {every: 5}\n"
    )
    config = read(TrainConfig, [str(old), "--model", "m", "--out", "o"])
    assert (config.update.lr, config.update.critic_lr, config.evaluation.every) == (1e-6, 1e-5, 5)
    assert (config.update.clip_high, config.update.aggregation, config.refill) == (None, "token", 0)


def test_an_entropy_bonus_that_is_given_beats_the_preset() -> None:
    given = ["household", "--model", "m", "--out", "o", "--preset", "verl_agent", "--update.entropy", "0"]
    assert read(TrainConfig, given).stepping.entropy == 0.0
