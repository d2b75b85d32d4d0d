"""Exact values against many played episodes."""

import numpy as np
import pytest

from worldline import envs
from worldline.bench.exact_values import dealer_totals, exact_value
from worldline.envs.small.script import Script
from worldline.envs.small.world import SmallWorld
from worldline.rollout import Rollout, plan


@pytest.mark.parametrize(
    ("name", "options", "script"),
    [
        ("lake", {}, Script("mistaken at the start", 0.1)),
        ("lake", {"actions": "bare", "observations": "squares"}, Script("optimal")),
        ("blackjack", {}, Script("bold against weak cards")),
        ("blackjack", {}, Script("inverted", 0.5)),
    ],
)
def test_played_episodes_have_the_exact_mean(name: str, options: dict[str, str], script: Script) -> None:
    world = envs.load(name, None, options)
    assert isinstance(world, SmallWorld)
    episodes = Rollout(world, script.load(world), batch_size=256).play(plan(world, "test", 1500, seed=9, run="t"))
    returns = np.array([episode.episode_return for episode in episodes])
    assert returns.mean() == pytest.approx(exact_value(world, script), abs=4 * returns.std() / len(returns) ** 0.5)


def test_other_worlds_are_played() -> None:
    world = envs.load("echo")
    assert isinstance(world, SmallWorld)
    assert exact_value(world, Script("optimal")) is None


def test_a_dealer_ends_at_17_or_above() -> None:
    for shown in range(1, 11):
        totals = dealer_totals((shown,))
        assert sum(totals.values()) == pytest.approx(1.0) and set(totals) <= set(range(17, 23))
    assert dealer_totals((10,))[20] == pytest.approx(0.342, abs=0.03), "often twenty"
