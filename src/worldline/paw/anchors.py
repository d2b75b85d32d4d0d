"""Anchor states: which rows of a group acted in the same state (GiGPO; PaW section 4 uses it as a base).

`identical` labels rows by equal text. `similar` is for worlds whose texts never repeat exactly (search results):
greedy clustering, each row joining the first cluster of its group whose first member it resembles. The observations
are the raw ones, without history or admissible actions.
"""

from collections import Counter
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
    clusters: dict[int, list[_Cluster]] = {}
    count = 0
    for group, observation in zip(groups, observations, strict=True):
        if (group, observation) in labels:
            continue  # an equal text always joins the cluster of its first copy
        members = clusters.setdefault(group, [])
        letters = Counter(observation)
        cluster = next((cluster for cluster in members if cluster.resembles(observation, letters, threshold)), None)
        if cluster is None:
            cluster, count = _Cluster(count, observation), count + 1
            members.append(cluster)
        labels[group, observation] = cluster.label
    return torch.tensor([labels[key] for key in zip(groups, observations, strict=True)], dtype=torch.long)


class _Cluster:
    """A label, and precomputed facts about the cluster's first member."""

    def __init__(self, label: int, first: str) -> None:
        self.label = label
        self._size = len(first)
        self._letters = Counter(first)
        self._matcher = SequenceMatcher(None, "", first)
        self._places: dict[str, int] = {}
        for place, letter in enumerate(first):
            self._places[letter] = self._places.get(letter, 0) | 1 << place

    def resembles(self, text: str, letters: Counter[str], threshold: float) -> bool:
        """difflib's ratio() >= threshold, after two cheaper upper bounds."""
        total = self._size + len(text)
        shared = (self._letters & letters).total()
        if total and 2.0 * shared / total < threshold:
            return False
        if not self._may_reach(text, threshold):
            return False
        self._matcher.set_seq1(text)
        return self._matcher.ratio() >= threshold

    def _may_reach(self, text: str, threshold: float) -> bool:
        """Whether the longest common subsequence is long enough: difflib's matching blocks are a common subsequence.

        Bit-parallel (Hyyrö): bit i of `row` is 0 where letter i of the first member is matched. Gives up as soon as
        matching all the rest could not help.
        """
        total, full = self._size + len(text), (1 << self._size) - 1
        row = full
        for done, letter in enumerate(text, start=1):
            hit = row & self._places.get(letter, 0)
            row = (row + hit | row - hit) & full
            if done % 64 == 0:
                reach = self._size - row.bit_count() + len(text) - done
                if 2.0 * reach / total < threshold:
                    return False
        return True
