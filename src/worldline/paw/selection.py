"""Which transitions teach the world model (PaW section 3.1, eq. 4): the top fraction of the update by action entropy.

The pool is all transitions of the update, over all groups. Transitions without a next observation, and repeated
ones where de-duplication is on (the paper's second limitation), leave the pool before the fraction is taken.
"""

import random
from collections.abc import Hashable, Sequence
from typing import Literal

import torch
from torch import Tensor

Selector = Literal["entropy", "sampled", "random", "all"]


def sampled_entropy(logprobs: Sequence[float]) -> float:
    """-(1/|a|) sum q log q over the sampled tokens: the formula as the paper prints it."""
    q = torch.tensor(logprobs, dtype=torch.float64)
    return float(-(q.exp() * q).mean()) if len(q) else 0.0


def random_scores(count: int, seed: int) -> list[float]:
    """Scores for the `random` control."""
    generator = random.Random(seed)
    return [generator.random() for _ in range(count)]


def duplicates(keys: Sequence[Hashable]) -> Tensor:  # (rows,) bool
    """True on every row whose key, (h_t, a_t, o_{t+1}), an earlier row already has."""
    earlier: set[Hashable] = set()
    repeated = []
    for key in keys:
        repeated.append(key in earlier)
        earlier.add(key)
    return torch.tensor(repeated, dtype=torch.bool)


def select(
    scores: Tensor,  # (rows,)
    candidates: Tensor,  # (rows,) bool
    alpha: float = 0.75,
) -> Tensor:  # (rows,) bool
    """The round(alpha n) best of the n candidates, at least one; of equal scores the earlier row wins."""
    pool = candidates.nonzero()[:, 0]
    keep = min(len(pool), max(1, int(alpha * len(pool) + 0.5)))
    best = torch.argsort(scores[pool], descending=True, stable=True)[:keep]
    selected = torch.zeros_like(candidates)
    selected[pool[best]] = True
    return selected
