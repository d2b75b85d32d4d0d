"""The targets of the world-model loss: selection over the update, balance between groups."""

import pytest
import torch
from toy_pool import episode, pool

from worldline.paw.pool import Pool
from worldline.paw.world import WorldConfig, select_world


def select(made: Pool, config: WorldConfig, update: int = 0, updates: int = 1) -> torch.Tensor:
    entropies = torch.tensor([step.entropy for step in made.steps])
    return select_world(made, entropies, config, update=update, updates=updates, seed=0)


def test_lambda_comes_from_returns_without_the_penalty() -> None:
    """Half of group 0 wins, with an invalid action on the way: lambda is exactly 1/2, not a little more."""
    made = pool(
        [episode("ab", True, invalid=0), episode("ab", False, invalid=1), episode("cd", True), episode("cd", True)],
        [0, 0, 1, 1],
    )
    targets = select(made, WorldConfig())
    assert targets.coefficients.tolist() == [0.5, 0.0]


def test_selection_is_global_over_groups_and_weights_are_per_group() -> None:
    """Entropies 0 1 | 0 1 2 3: the best half of six are 3, 2 and one of the 1s, the earlier."""
    made = pool([episode("ab", False), episode("wxyz", False, task="2")], [0, 1])
    targets = select(made, WorldConfig(alpha=0.5))
    assert targets.selected.tolist() == [False, True, False, False, True, True]
    assert targets.weights.tolist() == pytest.approx([0, 1 / 2, 0, 0, 1 / 4, 1 / 4])


@pytest.mark.parametrize(("selector", "count"), [("all", 5), ("random", 3), ("sampled", 3)])
def test_other_selectors(selector: str, count: int) -> None:
    made = pool([episode("abc", False), episode("de", False, task="2")], [0, 1])
    assert int(select(made, WorldConfig(alpha=0.5, selection=selector)).selected.sum()) == count


def test_constant_and_scheduled_coefficients() -> None:
    made = pool([episode("ab", True), episode("cd", False, task="2")], [0, 1])
    assert select(made, WorldConfig(coefficient="constant", start=0.1)).coefficients.tolist() == [0.1, 0.1]
    half_way = select(made, WorldConfig(coefficient="schedule"), update=2, updates=5)
    assert half_way.coefficients.tolist() == [0.5, 0.5]


def test_only_failed_groups_teach_the_world_if_so_wanted() -> None:
    """Group 0 is half won, group 1 lost, group 2 won: all weight, a third, is on the two rows of group 1."""
    made = pool(
        [episode(x, won, task=x) for x, won in zip("abcd", (True, False, False, True), strict=True)], [0, 0, 1, 2]
    )
    targets = select(made, WorldConfig(coefficient="failed", selection="all"))
    assert targets.coefficients.tolist() == [0.0, 1.0, 0.0]
    assert targets.weights.tolist() == pytest.approx([0, 0, 1 / 3, 0])


def test_echo_selects_and_balances_nothing() -> None:
    """Every transition, won groups too, by its share of the observation tokens: 1, 1, 3 | 3."""
    made = pool([episode("abc", True), episode("x", False, task="2")], [0, 1])
    targets = select(made, WorldConfig(loss="echo", echo=0.4, alpha=0.25))
    assert targets.selected.tolist() == [True] * 4
    assert targets.weights.tolist() == pytest.approx([0.4 / 8, 0.4 / 8, 1.2 / 8, 1.2 / 8])
    assert targets.coefficients.tolist() == [0.4, 0.4]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no regular expression"):
        WorldConfig(skip=("a(",))


def test_deduplication_counts_a_transition_once_and_reports_the_share() -> None:
    twins = [episode("ab", False), episode("ab", False), episode("xy", False, task="2")]
    made = pool(twins, [0, 0, 1])
    every = select(made, WorldConfig(selection="all"))
    once = select(made, WorldConfig(selection="all", deduplicate=True))
    assert every.repeated == once.repeated == pytest.approx(2 / 6)
    assert every.selected.tolist() == [True] * 6
    assert once.selected.tolist() == [True, True, False, False, True, True]
    assert float(once.weights.sum()) == pytest.approx(1.0)
