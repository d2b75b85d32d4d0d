"""The burrow: every chamber can be reached, distances by brute force, and nothing tells the place."""

import random

import numpy as np
import pytest

from worldline.envs.small.burrow import SIZE, SNIFF, BurrowGame, BurrowWorld, dig
from worldline.envs.small.script import Script
from worldline.rollout import Rollout, plan


@pytest.mark.parametrize("seed", range(20))
def test_a_burrow_hangs_together_and_its_distances_are_the_shortest(seed: int) -> None:
    burrow = dig(random.Random(seed))
    assert len(burrow.passages) == SIZE * SIZE - 1 + 2, "a tree and two loops"
    lengths = np.full((16, 16), np.inf)  # Floyd and Warshall
    np.fill_diagonal(lengths, 0)
    for (a, b), (c, d) in burrow.passages:
        assert abs(a - c) + abs(b - d) == 1
        lengths[a * SIZE + b, c * SIZE + d] = lengths[c * SIZE + d, a * SIZE + b] = 1
    for via in range(16):
        lengths = np.minimum(lengths, lengths[:, [via]] + lengths[[via], :])
    cheese = burrow.cheese[0] * SIZE + burrow.cheese[1]
    assert {divmod(i, SIZE): lengths[i, cheese] for i in range(16)} == burrow.distances
    assert burrow.distances[burrow.start] >= 3


def test_who_has_a_map_takes_the_shortest_way() -> None:
    world = BurrowWorld()
    for episode in Rollout(world, Script("optimal").load(world)).play(plan(world, "test", 50, seed=0, run="t")):
        burrow = world.burrow(episode.task_id)
        assert len(episode) == burrow.distances[burrow.start]


def test_views_and_smells() -> None:
    burrow = dig(random.Random(3))
    game = BurrowGame(burrow)
    ways = list(burrow.exits(burrow.start))
    assert list(game.admissible()) == [*(f"crawl {way}" for way in ways), SNIFF]
    assert all(way in game.introduction() for way in ways)
    smell = game.act(SNIFF).observation
    near = burrow.distances[burrow.start]
    assert ("strongly" in smell, "a little" in smell) == (near <= 2, 2 < near <= 4)
    wall = next(way for way in ("north", "west", "south", "east") if way not in ways) if len(ways) < 4 else "up"
    assert not game.act(f"crawl {wall}").valid
