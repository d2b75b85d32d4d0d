import numpy as np
import pytest

from worldline.kernel.gate import Exercise, Gate


def exercises(rng: np.random.Generator, steps: int, chance: float = 1.0) -> list[Exercise]:
    """Five features, of which the third alone decides; candidates of a step differ in number."""
    out = []
    for number in range(steps):
        features = rng.normal(size=(rng.integers(2, 7), 5)).astype(np.float32)
        right = rng.integers(len(features))
        features[:, 2] = 0
        features[right, 2] = 1
        if rng.random() > chance:  # the mark misleads: another one is right
            right = rng.choice([at for at in range(len(features)) if at != right])
        credit = np.zeros(len(features), np.float32)
        credit[right] = 1
        out.append(Exercise(number % 30, features, credit))
    return out


def test_it_puts_the_mass_where_the_deciding_feature_is() -> None:
    rng = np.random.default_rng(0)
    gate = Gate(5)
    gate.fit(exercises(rng, 300), frozenset(range(5)), seed=0)
    for one in exercises(rng, 50):
        (chances,) = gate.chances(one.features, [len(one.features)])
        assert chances[one.credit.argmax()] > 0.95
        assert chances.sum() == pytest.approx(1)


def test_it_trusts_a_feature_as_far_as_it_is_right() -> None:
    """The mark is on the right one of two in three cases of four: the likelihood is best at 3/4."""
    rng = np.random.default_rng(1)
    made = [e for e in exercises(rng, 3000, 0.75) if len(e.features) == 2]
    gate = Gate(5)
    nats = gate.fit(made, frozenset(range(6)), seed=0)
    trust = [gate.chances(e.features, [2])[0][e.features[:, 2].argmax()] for e in made]
    assert np.mean(trust) == pytest.approx(np.mean([e.credit[e.features[:, 2].argmax()] for e in made]), abs=0.05)
    assert np.mean(trust) == pytest.approx(0.75, abs=0.08)
    assert nats == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25), abs=0.08)


def test_without_a_fit_all_candidates_are_equal() -> None:
    chances = Gate(3).chances(np.eye(3, dtype=np.float32), [3])
    assert chances[0] == pytest.approx([1 / 3] * 3)


def test_steps_in_a_batch_are_weighed_as_alone() -> None:
    rng = np.random.default_rng(2)
    gate = Gate(5)
    made = exercises(rng, 60)
    gate.fit(made, frozenset({0}), seed=0, steps=50)
    together = gate.chances(np.concatenate([e.features for e in made]), [len(e.features) for e in made])
    for one, chances in zip(made, together, strict=True):
        assert chances == pytest.approx(gate.chances(one.features, [len(one.features)])[0], abs=1e-6)


def test_the_same_seed_is_the_same_fit() -> None:
    made = exercises(np.random.default_rng(3), 60)
    first, second = Gate(5), Gate(5)
    assert first.fit(made, frozenset({0}), seed=4, steps=50) == second.fit(made, frozenset({0}), seed=4, steps=50)
    for name, value in first.state_dict().items():
        assert value.equal(second.state_dict()[name]), name
