"""Text features: stable, different where texts differ in what matters, and linear in the policy's mean action."""

import numpy as np
import pytest

from worldline.ope.features import Features, HashedNgrams, joint
from worldline.ope.log import Choices
from worldline.types import Exchange, Turn


def turn(observation: str, goal: str = "put a cup in the sink", history: tuple[Exchange, ...] = ()) -> Turn:
    return Turn("household", goal, observation, ("look",), history)


def test_rows_are_of_length_one_and_the_same_everywhere() -> None:
    rows = HashedNgrams(width=64).states([turn("you see a cup 1"), turn("you see nothing")])
    assert rows.shape == (2, 64)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    # crc32 of "action\x1flook" is 86521669 by the standard's own table: bucket and sign follow.
    look = HashedNgrams(width=64).actions(["look"])[0]
    assert np.flatnonzero(look).tolist() == [86521669 // 2 % 64]
    assert look[86521669 // 2 % 64] == 1.0


def test_what_differs_is_told_apart() -> None:
    featuriser = HashedNgrams()
    did = (Exchange("you see a cup 1", "take cup 1"),)
    rows = featuriser.states(
        [turn("a shelf"), turn("a shelf", goal="heat an egg"), turn("a shelf", history=did), turn("a desk")]
    )
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    assert (distances[np.triu_indices(4, k=1)] > 0.2).all()
    np.testing.assert_array_equal(rows[0], featuriser.states([turn("a shelf")])[0])


def test_an_empty_text_is_a_row_of_zeros() -> None:
    assert not HashedNgrams().actions([""]).any()


def test_expected_features_are_the_mean_over_choices() -> None:
    rng = np.random.default_rng(0)
    features = Features(rng.normal(size=(3, 8)), rng.normal(size=(5, 8)), np.array([0, 1, 2]))
    p = np.array([0.25, 0.75, 1.0, 0.5, 0.3, 0.2])
    choices = Choices(np.log(p), np.array([0, 4, 2, 1, 2, 3]), np.array([0, 2, 3, 6]))
    slow = np.stack(
        [
            sum(
                p[c] * joint(features.states[[s]], features.table[[choices.actions[c]]])[0]
                for c in range(choices.offsets[s], choices.offsets[s + 1])
            )
            for s in range(3)
        ]
    )
    np.testing.assert_allclose(features.expected(choices), slow, atol=1e-12)
    part = features.take(np.array([2, 0])).expected(choices.take(np.array([2, 0])))
    np.testing.assert_allclose(part, slow[[2, 0]], atol=1e-12)


@pytest.mark.parametrize("shift", [0, 3])
def test_joint_is_circular_convolution(shift: int) -> None:
    state, action = np.eye(8)[[2]], np.eye(8)[[shift]]
    assert np.argmax(joint(state, action)[0, 17:]) == (2 + shift) % 8
