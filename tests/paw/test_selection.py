"""Selection is global over the update, and its bookkeeping is what eq. 4 says."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from worldline.paw import selection


@given(
    rows=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0]), st.booleans()), max_size=30),
    alpha=st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]),
)
def test_select_is_the_sorted_head_of_the_candidates(rows: list[tuple[float, bool]], alpha: float) -> None:
    pool = [(-score, row) for row, (score, candidate) in enumerate(rows) if candidate]
    keep = max(1, math.floor(alpha * len(pool) + 0.5))
    expected = {row for _, row in sorted(pool)[:keep]}
    mask = selection.select(
        torch.tensor([score for score, _ in rows]), torch.tensor([c for _, c in rows], dtype=torch.bool), alpha
    )
    assert set(mask.nonzero()[:, 0].tolist()) == expected


def test_top_alpha_is_global_not_per_group() -> None:
    """Two groups of four: all four of the keen group are chosen, none of the dull one's but by number."""
    scores = torch.tensor([0.1, 0.2, 0.3, 0.4, 5.0, 6.0, 7.0, 8.0])
    mask = selection.select(scores, torch.ones(8, dtype=torch.bool), alpha=0.5)
    assert mask.tolist() == [False] * 4 + [True] * 4


def test_empty_observations_leave_before_the_fraction_is_taken() -> None:
    candidates = torch.tensor([False, False, False, False, True, True, True, True])
    mask = selection.select(torch.arange(8, 0, -1.0), candidates, alpha=0.5)
    assert mask.tolist() == [False] * 4 + [True, True, False, False]


def test_sampled_entropy_is_the_printed_formula() -> None:
    q = [0.5, 0.25, 1.0]
    expected = -sum(x * math.log(x) for x in q) / 3
    assert math.isclose(selection.sampled_entropy([math.log(x) for x in q]), expected)
    assert selection.sampled_entropy([]) == 0.0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20))
def test_duplicates_leave_one_of_each(keys: list[tuple[int, int]]) -> None:
    repeated = selection.duplicates(keys).tolist()
    assert [keys.index(key) != row for row, key in enumerate(keys)] == repeated


def test_random_scores_come_from_the_seed_alone() -> None:
    assert selection.random_scores(5, 1) == selection.random_scores(5, 1) != selection.random_scores(5, 2)
