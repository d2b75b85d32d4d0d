"""Anchor labels against the plain quadratic definition, on texts long enough for difflib's autojunk to matter."""

import random
from difflib import SequenceMatcher

from hypothesis import given, settings
from hypothesis import strategies as st

from worldline.paw import anchors


def partition(labels: list[int]) -> list[int]:
    """Labels renumbered in order of appearance."""
    seen: dict[int, int] = {}
    return [seen.setdefault(label, len(seen)) for label in labels]


def greedy(observations: list[str], groups: list[int], threshold: float) -> list[int]:
    clusters: list[tuple[int, str]] = []
    labels = []
    for group, text in zip(groups, observations, strict=True):
        for label, (owner, first) in enumerate(clusters):
            if owner == group and SequenceMatcher(None, text, first).ratio() >= threshold:
                labels.append(label)
                break
        else:
            labels.append(len(clusters))
            clusters.append((group, text))
    return labels


def mutated(text: str, edits: int, rng: random.Random) -> str:
    letters = list(text)
    for _ in range(edits):
        letters[rng.randrange(len(letters))] = rng.choice("abcdefgh XYZ")
    return "".join(letters)


@given(seed=st.integers(0, 10_000), length=st.sampled_from([8, 40, 260]), threshold=st.sampled_from([0.5, 0.9, 1.0]))
@settings(max_examples=30, deadline=None)
def test_similar_is_the_plain_greedy_clustering(seed: int, length: int, threshold: float) -> None:
    rng = random.Random(seed)
    bases = ["".join(rng.choices("abcdefgh ", k=length)) for _ in range(3)]
    observations = [mutated(rng.choice(bases), rng.choice([0, 1, length // 12, length // 6]), rng) for _ in range(14)]
    groups = [rng.randrange(2) for _ in observations]
    labels = anchors.similar(observations, groups, threshold).tolist()
    assert partition(labels) == partition(greedy(observations, groups, threshold))


@given(rows=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "b", "a "])), max_size=12))
def test_identical_means_equal_text_in_the_same_group(rows: list[tuple[int, str]]) -> None:
    labels = anchors.identical([text for _, text in rows], [group for group, _ in rows]).tolist()
    for i, left in enumerate(rows):
        for j, right in enumerate(rows):
            assert (labels[i] == labels[j]) == (left == right)
