"""Every token of every row is predicted once, from the state before it, whatever the batching."""

import random
from itertools import accumulate, pairwise

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from worldline.paw import batches
from worldline.paw.rows import StepRow
from worldline.paw.sequences import TokenSequence, token_sequences


def random_rows(count: int, seed: int) -> list[StepRow]:
    rng = random.Random(seed)
    rows = []
    for index in range(count):
        parts = [tuple(rng.choices(range(1, 50), k=rng.randrange(low, 9))) for low in (1, 1, 0)]
        observed = tuple(rng.random() < 0.8 for _ in parts[2])
        rows.append(StepRow(index // 3, index % 3, *parts, observed=observed, noisy=observed[::-1], cut=False))
    return rows


@given(st.integers(1, 15), st.integers(0, 999), st.integers(1, 60), st.booleans())
@settings(max_examples=60, deadline=None)
def test_micro_batches_cover_each_token_exactly_once(count: int, seed: int, budget: int, packed: bool) -> None:
    rows = random_rows(count, seed)
    rng = random.Random(seed)
    world = [rng.random() < 0.5 for _ in rows]
    starts = batches.action_starts(rows)
    actions: dict[int, tuple[int, ...]] = {}
    targets: list[tuple[int, tuple[int, ...], int]] = []
    for chosen in batches.micro_batches(token_sequences(rows, range(count), world), budget, packed=packed):
        batch = batches.pack(rows, starts, chosen, world, packed=packed)
        assert batch.tokens.numel() <= budget or len(chosen) == 1
        if packed:
            assert batch.lengths == tuple(len(sequence.tokens) for sequence in chosen)
            assert batch.tokens.shape == (1, sum(batch.lengths))  # no padding
        flat = batch.tokens.flatten().tolist()
        lengths = batch.lengths or [batch.tokens.shape[1]] * len(chosen)
        firsts = [first for first, size in zip(accumulate([0, *lengths]), lengths, strict=False) for _ in range(size)]

        def context(at: int, flat: list[int] = flat, firsts: list[int] = firsts) -> tuple[int, ...]:
            return tuple(flat[firsts[at] : at + 1])

        for at, token, index in zip(
            batch.action_at.tolist(), batch.action.tolist(), batch.action_index.tolist(), strict=True
        ):
            assert flat[at + 1] == token
            assert index not in actions
            actions[index] = (*context(at), token)
        for at, token, row in zip(batch.world_at.tolist(), batch.world.tolist(), batch.world_row.tolist(), strict=True):
            assert flat[at + 1] == token
            targets.append((row, context(at), token))
    assert sorted(actions) == list(range(starts[-1]))
    for index, row in enumerate(rows):
        for i in range(len(row.response)):
            assert actions[starts[index] + i] == row.prompt + row.response[: i + 1]
    expected = [
        (index, row.prompt + row.response + row.continuation[:i], row.continuation[i])
        for index, row in enumerate(rows)
        if world[index]
        for i, seen in enumerate(row.observed)
        if seen
    ]
    assert sorted(targets) == sorted(expected)


@given(st.integers(0, 20), st.integers(1, 4))
def test_deal_shares_all_and_makes_ranks_equal(count: int, ranks: int) -> None:
    whole = [[TokenSequence((), (index,))] for index in range(count)]
    shares = [batches.deal(whole, rank, ranks) for rank in range(ranks)]
    assert len({len(share) for share in shares}) == 1
    assert [b for _, b in sorted((b[0].members, b) for share in shares for b in share if b)] == whole


def test_an_empty_share_is_a_batch_without_targets() -> None:
    for packed in (False, True):
        batch = batches.pack(random_rows(2, 0), [0, 1], [], None, packed=packed)
        assert batch.tokens.shape == (1, 1)
        assert batch.action.numel() == batch.world.numel() == len(batch.lengths) == 0


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 100))
def test_packed_batches_are_at_most_one_less_than_half_full(lengths: list[int], budget: int) -> None:
    sequences = [TokenSequence((1,) * length, (index,)) for index, length in enumerate(lengths)]
    sizes = [sum(len(s.tokens) for s in batch) for batch in batches.micro_batches(sequences, budget, packed=True)]
    assert sum(sizes) == sum(lengths)
    assert sum(2 * size <= budget for size in sizes) <= 1  # two of them would have been one


@given(st.integers(1, 100), st.integers(1, 40))
def test_mini_batches_are_all_rows_once_in_even_parts(count: int, size: int) -> None:
    rows = random_rows(count, 0)
    parts = batches.mini_batches(rows, size, torch.Generator().manual_seed(0))
    assert sorted(index for part in parts for index in part) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert len(parts) == max(1, round(count / size))
    assert len(batches.mini_batches(rows, 0, torch.Generator())) == 1
    met = [rows[index].trajectory for part in parts for index in part]
    assert [b for a, b in pairwise([None, *met]) if a != b] == list(dict.fromkeys(met))  # episodes stay together


def test_mini_batches_are_drawn_from_the_generator() -> None:
    rows = random_rows(60, 0)
    one, same, other = (batches.mini_batches(rows, 10, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert one == same != other
