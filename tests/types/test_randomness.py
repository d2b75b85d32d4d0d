"""Seeds and draws: stable on every machine, uniform, and independent of one another."""

import hashlib

import numpy as np
from scipy import stats

from worldline.types import derive_seed, uniform


def test_a_seed_is_the_upper_63_bits_of_a_hash_of_its_typed_keys() -> None:
    digest = hashlib.blake2b(b"int:7\x1fstr:train\x1fint:3", digest_size=8).digest()
    assert derive_seed(7, "train", 3) == int.from_bytes(digest, "big") // 2
    assert derive_seed(7) != derive_seed("7")
    assert derive_seed(1, 23) != derive_seed(12, 3)


def test_a_draw_is_the_first_53_bits_of_its_seed_as_a_fraction() -> None:
    draw = uniform(7, "epsilon")
    assert draw == float(f"{derive_seed(7, 'epsilon') >> 10}") / 2**53
    assert draw == uniform(7, "epsilon") != uniform(7, "random")


def test_draws_are_uniform_and_uncorrelated_over_seeds_and_purposes() -> None:
    draws = np.array([[uniform(seed, "token", place) for place in range(2)] for seed in range(4000)])
    assert stats.kstest(draws.ravel(), "uniform").pvalue > 0.01
    assert abs(np.corrcoef(draws.T)[0, 1]) < 4 / np.sqrt(len(draws))
