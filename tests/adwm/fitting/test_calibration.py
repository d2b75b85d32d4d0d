import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from worldline.adwm.fitting.calibration import area_under_curve, calibration_error, calibration_slope


def test_the_slope_is_the_maximum_of_the_likelihood() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400) * 2
    y = (rng.random(400) < expit(0.6 * x - 1)).astype(float)

    def objective(beta: np.ndarray) -> float:
        z = beta[0] * x + beta[1]
        return float(np.logaddexp(0, z).sum() - (y * z).sum())

    best = minimize(objective, [1.0, 0.0], method="BFGS").x
    assert calibration_slope(expit(x), y) == pytest.approx(best[0], abs=1e-3)


def test_a_slope_needs_both_outcomes_and_stays_finite_where_they_are_separable() -> None:
    assert np.isnan(calibration_slope([], []))
    assert np.isnan(calibration_slope([0.2, 0.3], [1, 1]))
    assert np.isfinite(calibration_slope([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1]))
    assert np.isfinite(calibration_slope([0.0, 0.2, 1.0], [0, 1, 0])), "0 and 1 as probabilities"


def test_calibration_error_of_a_known_case() -> None:
    p = np.repeat([0.1, 0.9], 50)
    y = np.concatenate([np.repeat([0, 1], [40, 10]), np.repeat([0, 1], [5, 45])])
    assert calibration_error(p, y, bins=2) == pytest.approx(0.5 * 0.1 + 0.5 * 0.0)
    assert np.isnan(calibration_error([], []))


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40))
def test_area_under_curve_counts_pairs(pairs: list[tuple[int, bool]]) -> None:
    scores, labels = [p[0] for p in pairs], [p[1] for p in pairs]
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a, up in pairs for b, down in pairs if up and not down]
    area = area_under_curve(scores, labels)
    assert np.isnan(area) if not wins else area == pytest.approx(np.mean(wins))
