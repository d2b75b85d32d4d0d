"""The blend against known exponents: where one of the two sources is right, it is the one that counts."""

import numpy as np
import pytest

from worldline.kernel.blend import Blend, BlendedStep


def _steps(rng: np.random.Generator, *, true_by_model: bool, power: float = 1.0) -> list[BlendedStep]:
    """Steps whose wording is drawn by one of the two; the other one's distribution is another, drawn at random."""
    steps = []
    for _ in range(3000):
        first, second = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
        truth = (second if true_by_model else first) ** power
        right = int(rng.choice(4, p=truth / truth.sum()))
        steps.append(BlendedStep(first, np.log(second), [right], 1.0))
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
    blend.fit([BlendedStep(np.array([1.0]), np.array([0.0]), [0], 1.0), BlendedStep(chances, np.zeros(2), [], 1.0)])
    assert blend.exponents.tolist() == [1.0, 0.0]


def test_where_several_wordings_may_have_been_right_their_sum_is_what_counts() -> None:
    """Of four wordings two are alike; which of both it was is not known. The same two exponents make that likeliest."""
    steps = _steps(np.random.default_rng(0), true_by_model=True)
    of_pairs = [BlendedStep(one.mass, one.log_chances, [0, 1] if one.right[0] < 2 else [2, 3], 1.0) for one in steps]
    blend = Blend()
    blend.fit(of_pairs)
    assert blend.exponents.tolist() == pytest.approx((0.0, 1.0), abs=0.15)
