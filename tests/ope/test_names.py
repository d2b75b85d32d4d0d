"""Columns of names against Python's own lists, sets and sorting."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldline.ope.names import Names, chosen, coded, column, lean_memory, refuse_repeated
from worldline.types import InputError


def names(texts: list[str]) -> Names:
    half = len(texts) // 2
    return column([pa.array(texts[:half], pa.string()), pa.array(texts[half:], pa.string())])


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=20))
def test_a_column_is_coded_like_a_list(texts: list[str]) -> None:
    fast, slow = coded(names(texts)), coded(texts)
    assert fast.codes.tolist() == slow.codes.tolist()
    assert list(fast.names) == list(slow.names) == sorted(set(texts))


def test_a_column_reads_like_a_tuple() -> None:
    texts = ["b", "a", "c"]
    made = names(texts)
    assert (len(made), list(made), made[-1], list(made[1:])) == (3, texts, "c", ["a", "c"])
    rows = np.array([2, 0])
    assert list(chosen(made, rows)) == list(chosen(tuple(texts), rows)) == ["c", "b"]
    assert chosen((), rows) == ()


def test_a_repeated_name_is_counted() -> None:
    refuse_repeated(names(["a", "b"]))
    with pytest.raises(InputError, match="episode id 'b' occurs 3 times"):
        refuse_repeated(names(["z", "b", "a", "b", "a", "b"]))


def test_lean_memory_ends_with_its_block() -> None:
    before = pa.default_memory_pool().backend_name
    with lean_memory():
        assert pa.default_memory_pool().backend_name == "system"
    assert pa.default_memory_pool().backend_name == before
