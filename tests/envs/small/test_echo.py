"""The echo: frequencies by the last two calls, and values in closed form."""

import random
from itertools import product

import pytest

from worldline.envs.small.echo import CALLS, FIRST, ROUNDS, TUNE, EchoGame, EchoWorld
from worldline.envs.small.script import Script
from worldline.rollout import Rollout, plan


@pytest.mark.parametrize(("before", "call"), list(product(range(3), range(3))))
def test_an_answer_depends_on_the_last_two_calls(before: int, call: int) -> None:
    tuned = 0
    for seed in range(1500):
        game = EchoGame(random.Random(seed))
        game.act(CALLS[(before + 1) % 3])  # a third call back does not matter
        game.act(CALLS[before])
        tuned += game.act(CALLS[call]).reward > 0
    assert tuned / 1500 == pytest.approx(TUNE[before][call], abs=0.05)


def pattern_value(*calls: int) -> float:
    """FIRST, then the chance of each pair of calls that follow each other."""
    sequence = [calls[step % len(calls)] for step in range(ROUNDS)]
    return (FIRST + sum(TUNE[a][b] for a, b in zip(sequence, sequence[1:], strict=False))) / ROUNDS


@pytest.mark.parametrize(("rule", "calls"), [("optimal", (0, 1, 2)), ("high and clap", (1, 2)), ("claps", (2,))])
def test_values_are_those_of_the_closed_form(rule: str, calls: tuple[int, ...]) -> None:
    world = EchoWorld()
    episodes = Rollout(world, Script(rule).load(world)).play(plan(world, "test", 600, seed=1, run="t"))
    returns = [episode.episode_return for episode in episodes]
    assert sum(returns) / len(returns) == pytest.approx(pattern_value(*calls), abs=0.025)


def test_the_optimal_pattern_is_the_best_of_all_sequences() -> None:
    best = [0.0] * 3
    for _ in range(ROUNDS - 1):
        best = [max(TUNE[before][call] + best[call] for call in range(3)) for before in range(3)]
    assert pattern_value(0, 1, 2) == pytest.approx((FIRST + max(best)) / ROUNDS)
