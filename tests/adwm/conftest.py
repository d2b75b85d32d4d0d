"""A small log of the tiny household, and a world model fitted on it: what most tests here read."""

from typing import Any

import pytest
import torch
from hypothesis import settings
from tiny_house import play, tiny_house

from tiny_llama import tiny_llama
from worldline.adwm.fit import FitConfig, Fitted, fit_episodes
from worldline.policies import TEMPLATES, Encoder, PolicyConfig
from worldline.policies.language_model.hf import HFPolicy, from_model
from worldline.sft.clone import CloningSchedule, clone
from worldline.sft.demonstrations import of_log
from worldline.sft.examples import sequences
from worldline.sft.small import small_tokenizer
from worldline.types import Trajectory, World

settings.register_profile("unhurried", deadline=None, max_examples=60)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def house() -> World:
    return tiny_house()


@pytest.fixture(scope="session")
def log(house: World) -> list[Trajectory]:
    """72 episodes of three policies on the same 24 tasks."""
    return [episode for epsilon in (0.2, 0.6, 1.0) for episode in play(house, epsilon, 24)]


@pytest.fixture(scope="session")
def fitted(log: list[Trajectory], tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A world model of the log: two members, a few epochs."""
    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("fitted") / "wm"
    out.mkdir()
    return fit_episodes(log, FitConfig(log=(), out=out, members=2, epochs=3, text_steps=400))


def _tokenizer(log: list[Trajectory]) -> Any:
    return small_tokenizer(
        [text for episode in log for step in episode.steps for text in (step.observation, f" {step.action}\n")], 400
    )


@pytest.fixture(scope="session")
def reader(log: list[Trajectory]) -> HFPolicy:
    """A language model of random weights, far from uniform, that reads the log's language and chooses."""
    tokenizer = _tokenizer(log)
    model = tiny_llama(tokenizer, 32, intermediate_size=64, num_key_value_heads=2, initializer_range=0.3).eval()
    return from_model(model, tokenizer, PolicyConfig(mode="choose"), name="hf:reader")


@pytest.fixture(scope="session")
def agent(log: list[Trajectory], tmp_path_factory: pytest.TempPathFactory) -> HFPolicy:
    """A tiny language model cloned from the best logger: what it does depends on what it reads."""
    tokenizer = _tokenizer(log)
    model = tiny_llama(tokenizer, 64, intermediate_size=128)
    shown = [of_log(episode) for episode in log if episode.epsilon < 0.5]
    examples = sequences(shown, Encoder(tokenizer, TEMPLATES["transcript"], 1500), "action")
    clone(
        model,
        examples,
        CloningSchedule(12, 1024, 5e-3, muon_rate=0.01, reading=0.1),
        pad=0,
        seed=0,
        folder=tmp_path_factory.mktemp("agent"),
        save=lambda folder: folder.mkdir(parents=True),
    )
    return from_model(model.eval(), tokenizer, PolicyConfig(mode="choose"), name="hf:agent")
