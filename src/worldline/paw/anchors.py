"""Anchor states: which rows of a group acted from the same place (GiGPO; PaW section 4 uses it as a base).

`identical` labels rows by equal text. `similar` is for worlds whose texts never repeat exactly (search results):
greedy clustering, each row joining the first cluster of its group whose first member it resembles. The observations
are the raw ones, without history or admissible actions.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

import torch
from torch import Tensor


def identical(observations: Sequence[str], groups: Sequence[int]) -> Tensor:  # (rows,)
    """One label per distinct observation of each group."""
    labels: dict[tuple[int, str], int] = {}
    return torch.tensor(
        [labels.setdefault(key, len(labels)) for key in zip(groups, observations, strict=True)], dtype=torch.long
    )


def similar(observations: Sequence[str], groups: Sequence[int], threshold: float = 0.9) -> Tensor:  # (rows,)
    """One label per cluster of observations whose difflib ratio to the cluster's first member reaches `threshold`."""
    labels: dict[tuple[int, str], int] = {}
    clusters: dict[int, list[tuple[int, SequenceMatcher[str]]]] = {}
    count = 0
    for group, observation in zip(groups, observations, strict=True):
        if (group, observation) in labels:
            continue  # a text's twin always joins the cluster its first copy joined
        known = clusters.setdefault(group, [])
        label = next((label for label, first in known if _resembles(observation, first, threshold)), None)
        if label is None:
            label, count = count, count + 1
            known.append((label, SequenceMatcher(None, "", observation)))
        labels[group, observation] = label
    return torch.tensor([labels[key] for key in zip(groups, observations, strict=True)], dtype=torch.long)


def _resembles(observation: str, first: SequenceMatcher[str], threshold: float) -> bool:
    """ratio() >= threshold, asking its two cheap upper bounds first; difflib keeps what it learnt of `first`."""
    first.set_seq1(observation)
    return first.real_quick_ratio() >= threshold and first.quick_ratio() >= threshold and first.ratio() >= threshold
