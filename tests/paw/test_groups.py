"""Dynamic sampling: groups without variance are dropped and others take their place, by enumeration of small cases."""

from itertools import product

import pytest
from toy_pool import episode

from counting import CountingWorld
from worldline.paw.groups import Groups, plan_groups, plan_more_groups, refilled, varied
from worldline.types import Trajectory


def made(outcomes: list[tuple[bool, ...]], first: int = 0) -> Groups:
    """A group of won and lost episodes for each entry, numbered from `first`."""
    pairs = [
        (episode("a", won, task=str(number)), number) for number, group in enumerate(outcomes, first) for won in group
    ]
    return Groups([t for t, _ in pairs], [number for _, number in pairs], 0, [])


def returns(trajectory: Trajectory) -> float:
    return float(bool(trajectory.success))


KINDS = ((False, False), (True, False), (True, True))


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_every_small_case(rounds: int) -> None:
    """Two groups wanted; what further rounds bring is drawn from a fixed list. Expected by walking through it."""
    for start in product(KINDS, repeat=2):
        for later in product(KINDS, repeat=3):
            supply, calls = list(later), []

            def more(number: int, count: int, supply: list = supply, calls: list = calls) -> Groups:
                calls.append((number, count))
                taken, supply[:] = supply[:count], supply[count:]
                return made(taken, number)

            result = refilled(made(list(start)), more, returns, 2, rounds)
            sequence, number, waiting = list(start), 2, list(later)
            expected_calls = []
            for _ in range(rounds):
                missing = 2 - sum(len(set(kind)) > 1 for kind in sequence)
                if missing <= 0:
                    break
                expected_calls.append((number, missing))
                sequence += waiting[:missing]
                waiting, number = waiting[missing:], number + missing
            good = [index for index, kind in enumerate(sequence) if len(set(kind)) > 1][:2]
            assert calls == expected_calls
            assert len(result.played.trajectories) == 2 * len(sequence)
            assert sorted(set(result.kept.groups)) == (good or [0, 1])
            assert result.dropped == (len(sequence) - len(good) if good else 0)


def test_a_group_varies_when_its_returns_do() -> None:
    assert varied(made([*KINDS, (True, False, True)]), returns) == [1, 3]


def test_further_groups_have_names_and_draws_of_their_own_and_the_same_ones_again() -> None:
    world = CountingWorld()
    planned = plan_groups(world, "train", 2, 3, 4, seed=0)
    further = plan_more_groups(world, "train", 2, 3, 2, 4, seed=0)
    assert further == plan_more_groups(world, "train", 2, 3, 2, 4, seed=0)
    assert [e.id[:12] for e in further[::4]] == ["u000002-0003", "u000002-0004"]
    every = [*planned, *further]
    assert len({e.id for e in every}) == len({e.seed for e in every}) == 20
    assert all(len({e.task for e in further[at : at + 4]}) == 1 for at in (0, 4))
