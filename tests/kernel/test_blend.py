"""The blend against known exponents: where one of the two sources is right, it is the one that counts."""

import numpy as np
import pytest

from worldline.kernel.blend import Blend, BlendedStep, levels


def _steps(rng: np.random.Generator, *, true_by_model: bool, power: float = 1.0) -> list[BlendedStep]:
    """Steps whose wording is drawn by one of the two; the other one's distribution is another, drawn at random."""
    steps = []
    for _ in range(3000):
        first, second = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        truth = (second if true_by_model else first) ** power
        right = int(rng.choice(4, p=truth / truth.sum()))
        steps.append(BlendedStep(first, np.log(second), right, 1.0))
    return steps


@pytest.mark.parametrize(
    ("true_by_model", "power", "expected"),
    [(False, 1.0, (1.0, 0.0)), (True, 1.0, (0.0, 1.0)), (False, 0.5, (0.5, 0.0))],
)
def test_the_exponents_are_those_that_the_wordings_were_drawn_with(
    true_by_model: bool, power: float, expected: tuple[float, float]
) -> None:
    blend = Blend()
    blend.fit(_steps(np.random.default_rng(0), true_by_model=true_by_model, power=power))
    assert blend.exponents.tolist() == pytest.approx(expected, abs=0.1)


def test_mass_moves_between_wordings_and_not_within_one() -> None:
    blend = Blend()
    blend.exponents.copy_(blend.exponents.new_tensor([0.5, 1.0]))
    chances, of = np.array([0.1, 0.3, 0.6]), np.array([0, 0, 1])
    blended = blend.chances(chances, of, np.log([0.8, 0.8, 0.2]))
    first, second = 0.4**0.5 * 0.8, 0.6**0.5 * 0.2
    assert blended == pytest.approx(np.array([first / 4, first * 3 / 4, second]) / (first + second))


def test_one_wording_or_no_fit_leaves_the_gate_alone() -> None:
    chances = np.array([0.2, 0.8])
    assert Blend().chances(chances, np.array([0, 1]), np.log([0.9, 0.1])) is chances
    blend = Blend()
    blend.fit([BlendedStep(np.array([1.0]), np.array([0.0]), 0, 1.0), BlendedStep(chances, np.zeros(2), -1, 1.0)])
    assert blend.exponents.tolist() == [1.0, 0.0]


def test_exponents_are_the_best_within_their_bounds() -> None:
    """A model that is wrong has exponent 0, and the gate's is then fitted to that: not the one beside a negative."""
    rng = np.random.default_rng(1)
    steps = []
    for _ in range(3000):
        truth = rng.dirichlet(np.ones(3))
        mass, misled = truth**0.6 / (truth**0.6).sum(), (1 / truth) / (1 / truth).sum()
        steps.append(BlendedStep(mass, np.log(misled), int(rng.choice(3, p=truth)), 1.0))
    blend, plain = Blend(), Blend()
    blend.fit(steps)
    plain.fit([BlendedStep(one.mass, np.zeros(3), one.right, 1.0) for one in steps])
    assert blend.exponents.tolist() == pytest.approx(plain.exponents.tolist(), abs=1e-3)
    assert plain.exponents.tolist() == pytest.approx([1 / 0.6, 0.0], abs=0.1)


def test_levels_share_a_wording_among_its_kinds_as_the_gate_does() -> None:
    kinds, of = np.array([7, 7, 3, 3]), np.array([0, 1, 1, 2])
    chances = np.array([0.4, 0.3, 0.1, 0.2])
    at = levels(kinds, of, chances, np.log([0.5, 0.2, 0.2, 0.3]).astype(np.float32))
    assert at.kinds.tolist() == [1, 1, 0, 0] and len(set(at.pairs.tolist())) == 4
    assert np.exp(at.log_pairs) == pytest.approx([0.5, 0.15, 0.05, 0.3], abs=1e-6)
    assert np.exp(at.log_kinds) == pytest.approx([0.65, 0.65, 0.35, 0.35], abs=1e-6)


def test_wordings_are_flattened_within_their_kind_alone() -> None:
    """Three ways to say no, one to say yes: whichever no is likeliest, a no stays as likely as it was."""
    blend = Blend()
    blend.exponents.copy_(blend.exponents.new_tensor([0.0, 0.0]))
    chances, kinds = np.array([0.7, 0.2, 0.05, 0.05]), np.array([0, 0, 0, 1])
    blended = blend.chances(chances, np.arange(4), np.zeros(4), kinds)
    assert blended == pytest.approx([0.95 / 3, 0.95 / 3, 0.95 / 3, 0.05])
    assert blend.chances(chances, np.arange(4), np.zeros(4)) == pytest.approx([0.25] * 4), "without kinds: flat"


def test_a_kind_without_mass_stays_without() -> None:
    blend = Blend()
    blend.exponents.copy_(blend.exponents.new_tensor([0.7, 0.3]))
    chances, kinds = np.array([0.6, 0.4, 0.0, 0.0]), np.array([0, 0, 1, 1])
    blended = blend.chances(chances, np.arange(4), np.zeros(4), kinds)
    assert blended.sum() == pytest.approx(1.0) and blended[2:].tolist() == [0.0, 0.0]
