"""The taxi against Gymnasium's map, and its best driver against a search over all states."""

from collections import deque

import pytest

from worldline.envs.small.taxi import DRIVES, DROP, FETCH, SIZE, STANDS, TaxiGame, TaxiWorld, arrival
from worldline.rollout import Rollout, plan


def test_the_map_is_gymnasiums() -> None:
    gymnasium = pytest.importorskip("gymnasium", reason="needs the extra 'gymnasium'")
    name = next(name for name in ("Taxi-v4", "Taxi-v3") if name in gymnasium.registry)
    official = gymnasium.make(name).unwrapped
    for street in range(SIZE):
        for avenue in range(SIZE):
            for number, drive in enumerate(DRIVES):  # theirs are in this order: south, north, east, west
                after = official.P[official.encode(street, avenue, 0, 1)][number][0][1]
                assert arrival((street, avenue), drive) == tuple(list(official.decode(after))[:2])
    assert [official.locs[i] for i in range(4)] == list(STANDS.values())


def fewest_steps(cab: tuple[int, int], waiting: str, destination: str) -> int:
    """Breadth first over cab and passenger."""
    start = (cab, True)
    steps, queue = {start: 0}, deque([start])
    while queue:
        place, waits = state = queue.popleft()
        if not waits and place == STANDS[destination]:
            return steps[state] + 1
        options = [(arrival(place, drive), waits) for drive in DRIVES]
        options += [(place, False)] if waits and place == STANDS[waiting] else []
        for after in options:
            if after not in steps:
                steps[after] = steps[state] + 1
                queue.append(after)
    raise AssertionError


def test_the_best_driver_takes_the_shortest_way() -> None:
    from worldline.envs.small.script import Script

    world = TaxiWorld()
    episodes = Rollout(world, Script("optimal").load(world)).play(plan(world, "test", 60, seed=0, run="t"))
    for episode in episodes:
        draws = world.fixed(episode.task_id)
        waiting, destination = draws.sample(list(STANDS), 2)
        cab = (draws.randrange(SIZE), draws.randrange(SIZE))
        assert len(episode) == fewest_steps(cab, waiting, destination)
        assert episode.episode_return == pytest.approx(1 - 0.01 * (len(episode) - 1))


def test_a_wrong_stop_costs_more_and_changes_nothing() -> None:
    game = TaxiGame((2, 2), "red", "blue")
    before = game.introduction()
    for action in (FETCH, DROP):
        outcome = game.act(action)
        assert outcome.reward == -0.03 and not outcome.over and outcome.observation.endswith(before)
    assert not game.act("honk").valid
