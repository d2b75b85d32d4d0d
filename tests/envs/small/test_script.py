"""Scripted policies: the mixture of a rule and chance, and what they refuse."""

import numpy as np
import pytest

from worldline import envs
from worldline.envs.small.script import Script, ScriptedPolicy, latest_first
from worldline.policies import PolicySource
from worldline.types import Exchange, InputError, Turn


def turn(*observations: str, admissible: tuple[str, ...] = ("sing low", "sing high", "clap")) -> Turn:
    history = tuple(Exchange(observation, "clap") for observation in observations[:-1])
    return Turn("generic", "", observations[-1], admissible, history)


def test_chance_is_shared_by_the_menu() -> None:
    policy = Script("high only", 0.3).load(envs.load("echo"))
    assert isinstance(policy, ScriptedPolicy)
    assert policy.options(turn("quiet")) == pytest.approx({"sing high": 0.8, "sing low": 0.1, "clap": 0.1})
    (logprobs,) = policy.logprobs([turn("quiet")], [["clap", "shout"]])
    assert logprobs == pytest.approx([np.log(0.1), -np.inf])


def test_a_menu_stands_in_for_a_list() -> None:
    world = envs.load("guess")
    policy = Script("halves", 1.0).load(world)
    assert isinstance(policy, ScriptedPolicy)
    options = policy.options(Turn("generic", "", "I think of a number.", None, ()))
    assert "I say 7." in options and list(options.values()) == pytest.approx([1 / 20] * 20)


def test_a_script_is_a_source_with_an_identity() -> None:
    assert isinstance(Script("halves"), PolicySource)
    assert Script("halves").identity != Script("halves", 0.1).identity


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="echo has no script 'high-only': did you mean 'high only'"):
        Script("high-only").load(envs.load("echo"))
    with pytest.raises(InputError, match="shop has no scripted policies"):
        Script("high only").load(envs.load("shop"))
    policy = Script("high only", 0.3).load(envs.load("echo"))
    with pytest.raises(InputError, match="acts by chance, and nothing is listed"):
        policy.act([turn("quiet", admissible=())])


def test_observations_latest_first() -> None:
    assert list(latest_first(turn("a", "b", "c"))) == ["c", "b", "a"]
