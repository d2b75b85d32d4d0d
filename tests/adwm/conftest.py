"""What most tests here read: a world model of a small log, and tiny language models of that log's language."""

from typing import Any

import pytest

from tiny_llama import tiny_llama
from tiny_world_model import *  # noqa: F403 - fixtures
from worldline.policies import TEMPLATES, Encoder, PolicyConfig
from worldline.policies.language_model.hf import HFPolicy, from_model
from worldline.sft.clone import CloningSchedule, clone
from worldline.sft.demonstrations import of_log
from worldline.sft.examples import sequences
from worldline.sft.small import small_tokenizer
from worldline.types import Trajectory


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
        CloningSchedule(8, 1024, 5e-3, muon_rate=0.01, reading=0.1),
        pad=0,
        seed=0,
        folder=tmp_path_factory.mktemp("agent"),
        save=lambda folder: folder.mkdir(parents=True),
    )
    return from_model(model.eval(), tokenizer, PolicyConfig(mode="choose"), name="hf:agent")
