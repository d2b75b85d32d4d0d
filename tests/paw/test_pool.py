"""The transition pool: rewards and penalties by row, returns and groups by episode."""

from toy_pool import episode, pool


def test_success_is_paid_at_the_end_and_nonsense_on_its_own_row() -> None:
    made = pool([episode("ab", True, invalid=0), episode("abc", False)], [4, 4])
    assert made.rewards.tolist() == [0, 10, 0, 0, 0]
    assert made.penalties.tolist() == [-0.1, 0, 0, 0, 0]
    assert made.returns.tolist() == [10, 10, 0, 0, 0]
    assert made.groups.tolist() == [0] * 5
