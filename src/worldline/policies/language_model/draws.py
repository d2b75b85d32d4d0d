"""The draws that decide sampled tokens: `uniform(seed, "token", place)` for many rows and places at once."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt


def token_draws(seeds: Sequence[int], first: int, count: int) -> npt.NDArray[np.float64]:
    """(count, rows): the draw of each row for the places from `first` on. A draw depends on its seed and place only."""
    ends = [b"%d" % place for place in range(first, first + count)]
    starts = [f"int:{seed}\x1fstr:token\x1fint:".encode() for seed in seeds]
    digests = b"".join(blake2b(start + end, digest_size=8).digest() for end in ends for start in starts)
    # The top 53 bits of a digest, as `derive_seed` and `uniform` take them.
    numbers = (np.frombuffer(digests, dtype=">u8") >> np.uint64(11)).astype(np.float64) / 2**53
    return numbers.reshape(count, len(seeds))
