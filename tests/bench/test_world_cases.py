"""Who plays in `bench worlds`."""

import pytest

from worldline import envs
from worldline.bench.exact_values import exact_value
from worldline.bench.world_cases import DATA_SUITES, LARGE_SUITES, SMALL_CASES, TASKS
from worldline.envs.small.world import SmallWorld


def test_three_loggers_at_least_eight_targets_at_most_450_episodes() -> None:
    assert 3 * TASKS <= 450
    for suite in (*(case.suite for case in SMALL_CASES.values()), *LARGE_SUITES.values(), *DATA_SUITES.values()):
        assert len(suite.loggers) == 3
        assert len(suite.targets) >= 8
        assert not [policy for policy in suite.targets.values() if policy in suite.loggers.values()]


@pytest.mark.parametrize("name", SMALL_CASES)
def test_everybody_can_be_loaded_and_the_best_script_is_judged_not_logged(name: str) -> None:
    case = SMALL_CASES[name]
    world = envs.load(case.env, None, case.options)
    assert isinstance(world, SmallWorld)
    for script in (*case.loggers.values(), *case.targets.values()):
        script.load(world)
    best = next(iter(world.scripts))
    assert next(iter(case.targets.values())).rule == best
    assert not [script for script in case.loggers.values() if script.rule == best and not script.chance]
    assert case.exact or case.truth * TASKS >= 600


@pytest.mark.parametrize("name", [name for name, case in SMALL_CASES.items() if case.exact])
def test_exact_truths_differ(name: str) -> None:
    case = SMALL_CASES[name]
    world = envs.load(case.env, None, case.options)
    assert isinstance(world, SmallWorld)
    values = [exact_value(world, script) or 0.0 for script in case.targets.values()]
    assert max(values) == values[0]
    ordered = sorted(values)
    assert min(b - a for a, b in zip(ordered, ordered[1:], strict=False)) > 0.01 * (world.return_range[1])


def test_some_worlds_are_held_out() -> None:
    assert sum(case.held_out for case in SMALL_CASES.values()) >= 2
