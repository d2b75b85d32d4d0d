"""Reproducible random streams that do not depend on batch size, order or process."""

import hashlib


def derive_seed(*keys: int | str) -> int:
    """A 63-bit seed that is a stable function of `keys`, the same on every machine.

    Every random draw of an episode is made from `derive_seed(run seed, episode, step, purpose)`, so an
    episode comes out the same whoever shares its batch and whether or not the run was resumed.
    """
    text = "\x1f".join(f"{type(key).__name__}:{key}" for key in keys)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def uniform(seed: int, *purpose: int | str) -> float:
    """A number in [0, 1) that is a function of `seed` and `purpose`."""
    return (derive_seed(seed, *purpose) >> 10) / 2**53
