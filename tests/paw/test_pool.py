"""From trajectories to advantages and world weights: what is paid, who is compared, what is balanced."""

import pytest
import torch

from worldline.paw import advantages
from worldline.paw.advantages import CreditConfig
from worldline.paw.pool import Pool, to_pool
from worldline.paw.rewards import RULES, rule
from worldline.paw.rows import Observed, to_rows
from worldline.paw.world import WorldConfig, select_world
from worldline.types import Step, Trajectory, WorldlineError


def episode(
    letters: str,
    won: bool,
    invalid: int | None = None,
    task: str = "1",
    score: float | None = None,
    rewards: list[float] | None = None,
) -> Trajectory:
    steps = tuple(
        Step(
            observation=letter,
            action="go",
            reward=rewards[t] if rewards else 0.25,
            valid=t != invalid,
            prompt_ids=(ord(letter), 3),
            token_ids=(5,) * (t + 1),
            token_logprobs=(-0.5,) * (t + 1),
            entropy=float(t),
        )
        for t, letter in enumerate(letters)
    )
    return Trajectory(
        id=f"{task}-{letters}",
        env="toy",
        task_id=task,
        policy="p",
        steps=steps,
        final_observation="end",
        terminated=True,
        success=won,
        score=score,
    )


def pool(trajectories: list[Trajectory], groups: list[int], family: str = "household") -> Pool:
    rows = to_rows(trajectories, lambda text: Observed(tuple(map(ord, text)), (False,) * len(text)))
    return to_pool(rows, trajectories, groups, rule(family, max_return=4.0))


def select(made: Pool, config: WorldConfig, update: int = 0, updates: int = 1) -> torch.Tensor:
    entropies = torch.tensor([step.entropy for step in made.steps])
    return select_world(made, entropies, config, update=update, updates=updates, seed=0)


def test_success_is_paid_at_the_end_and_nonsense_on_its_own_row() -> None:
    made = pool([episode("ab", True, invalid=0), episode("abc", False)], [4, 4])
    assert made.rewards.tolist() == [0, 10, 0, 0, 0]
    assert made.penalties.tolist() == [-0.1, 0, 0, 0, 0]
    assert made.returns.tolist() == [10, 10, 0, 0, 0]
    assert made.groups.tolist() == [0] * 5


def test_each_family_pays_its_own_way() -> None:
    assert RULES["search"].rewards(episode("ab", True)) == [0, 1]
    assert RULES["search"].penalties(episode("ab", True, invalid=1)) == [0, -0.01]
    assert RULES["shop"].rewards(episode("ab", True, score=0.99)) == [0, 0]
    assert RULES["shop"].rewards(episode("ab", True, score=1.0)) == [0, 10]
    other = rule("somewhere else", max_return=4.0)
    assert other.rewards(episode("ab", True)) == [0.25, 0.25]
    assert other.penalties(episode("a", True, invalid=0)) == [-0.04]


def test_a_reward_that_is_no_number_stops_the_run_by_name() -> None:
    with pytest.raises(WorldlineError, match="1-ab"):
        rule("other", 1.0).rewards(episode("ab", True, rewards=[0.0, float("nan")]))


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


def test_deduplication_counts_a_transition_once_and_reports_the_share() -> None:
    twins = [episode("ab", False), episode("ab", False), episode("xy", False, task="2")]
    made = pool(twins, [0, 0, 1])
    every = select(made, WorldConfig(selection="all"))
    once = select(made, WorldConfig(selection="all", deduplicate=True))
    assert every.repeated == once.repeated == pytest.approx(2 / 6)
    assert every.selected.tolist() == [True] * 6
    assert once.selected.tolist() == [True, True, False, False, True, True]
    assert float(once.weights.sum()) == pytest.approx(1.0)


def test_advantages_are_spread_over_response_tokens() -> None:
    made = pool([episode("ab", True), episode("abc", False)], [0, 0])
    made_tokens = advantages.assign(made, "grpo", "textbook", CreditConfig())
    z = 5 / (50**0.5 + 1e-6)
    assert made_tokens.advantages.tolist() == pytest.approx([z] * 3 + [-z] * 6)


def test_gigpo_compares_where_the_states_agree() -> None:
    """Both start in `a`: the winner's first step is worth gamma * 10; `b` and `c` are nobody else's."""
    made = pool([episode("ab", True), episode("ac", False)], [0, 0])
    episodes = advantages.assign(made, "grpo", "textbook", CreditConfig(norm="mean")).advantages
    both = advantages.assign(made, "gigpo", "textbook", CreditConfig(norm="mean", gamma=0.95)).advantages
    assert (both - episodes).tolist() == pytest.approx([4.75, 0, 0, -4.75, 0, 0])


def test_ppo_credits_tokens_with_what_the_critic_did_not_foresee() -> None:
    made = pool([episode("ab", True), episode("ab", False)], [0, 1])
    result = advantages.assign(made, "ppo", "textbook", CreditConfig(), torch.zeros(6))
    assert result.returns.tolist() == [10, 10, 10, 0, 0, 0]
    assert result.advantages.mean() == pytest.approx(0, abs=1e-6)
    assert (result.advantages[:3] > 0).all()
