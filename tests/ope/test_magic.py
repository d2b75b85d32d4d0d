"""MAGIC's blend on the simplex; its two ends are tested in test_estimators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldline.ope.magic import simplex_minimum


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_simplex_minimum_beats_every_other_blend(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size))
    best = simplex_minimum(root.T @ root)
    assert best.sum() == pytest.approx(1)
    assert (best >= 0).all()
    others = rng.dirichlet(np.full(size, 0.3), size=200)
    assert (np.square(root @ best).sum() <= np.square(others @ root.T).sum(axis=1) + 1e-9).all()
