import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from worldline.adwm.calibration import (
    Platt,
    area_under_curve,
    calibration_error,
    fit_platt,
    logit,
    prior_shift,
    sigmoid,
)


def test_prior_correction_undoes_balancing_exactly() -> None:
    """Bayes by hand: p(x|1) / p(x|0) = 3, positives 5 % in nature and 50 % in training."""
    ratio, natural, trained = 3.0, 0.05, 0.5
    seen = logit(ratio * trained / (ratio * trained + (1 - trained)))
    true = ratio * natural / (ratio * natural + (1 - natural))
    assert sigmoid(seen + prior_shift(trained, natural)) == pytest.approx(true)


def test_prior_correction_of_a_positive_weight() -> None:
    """A head trained with positive weight c sees rate c b / (c b + 1 - b)."""
    b, c = 0.02, 49.0
    trained = c * b / (c * b + 1 - b)
    assert sigmoid(logit(0.5) + prior_shift(trained, b)) == pytest.approx(0.5 / (0.5 + 0.5 * c))


def test_platt_is_the_maximum_of_its_posterior() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400) * 2
    y = (rng.random(400) < sigmoid(0.6 * x - 1)).astype(float)

    def objective(beta: np.ndarray) -> float:
        z = beta[0] * x + beta[1]
        return float(np.logaddexp(0, z).sum() - (y * z).sum() + 0.5 * ((beta[0] - 1) ** 2 + beta[1] ** 2))

    best = minimize(objective, [1.0, 0.0], method="BFGS").x
    platt = fit_platt(x, y)
    assert platt.slope == pytest.approx(best[0], abs=1e-4)
    assert platt.offset == pytest.approx(best[1], abs=1e-4)


def test_platt_without_data_changes_nothing_and_separable_data_stay_finite() -> None:
    assert fit_platt([], []) == Platt(1.0, 0.0)
    platt = fit_platt([-5.0, -4.0, 4.0, 5.0], [0, 0, 1, 1])
    assert np.isfinite([platt.slope, platt.offset]).all()
    assert fit_platt([3.0, -3.0], [1.0, 0.0])(0.0) == pytest.approx(0.0, abs=1e-6)


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
