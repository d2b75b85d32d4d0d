"""Credit of the response tokens, from trajectories."""

import pytest
import torch
from toy_pool import episode, pool

from worldline.paw import advantages
from worldline.paw.advantages import CreditConfig


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
