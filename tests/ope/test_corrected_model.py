"""The blend of a world model and the weighted residuals of the log, against closed forms and simulated logs."""

import numpy as np
import pytest

from worldline.ope.corrected_model import corrected_model
from worldline.ope.diagnostics import Diagnostics, distrust
from worldline.ope.estimation import Estimator
from worldline.ope.log import RaggedLog, RefusalError


def one_step(rewards: np.ndarray, tasks: np.ndarray | None = None) -> RaggedLog:
    """Episodes of one step, each of a task of its own."""
    episodes = len(rewards)
    return RaggedLog(
        rewards=rewards,
        behaviour=np.full(episodes, np.log(0.5)),
        offsets=np.arange(episodes + 1),
        tasks=np.arange(episodes) if tasks is None else tasks,
        policies=np.zeros(episodes, dtype=np.int64),
        terminated=np.ones(episodes, dtype=np.bool_),
    )


def test_a_model_without_residuals_is_left_alone() -> None:
    rewards = np.array([0.0, 1.0, 0.5, 0.25])
    made = corrected_model(one_step(rewards), 1.0, np.log([2.0, 0.1, 1.0, 0.9]), rewards, 0.3)
    np.testing.assert_allclose(made.values, rewards)


def test_an_equal_error_in_every_episode_is_taken_out_whole() -> None:
    """Residuals without scatter are sure: all of the correction is taken, and no error of the model is left."""
    rewards = np.array([0.0, 1.0, 0.5, 0.25])
    made = corrected_model(one_step(rewards), 1.0, np.zeros(4), rewards - 0.2, 0.3)
    assert made.share == pytest.approx(1.0)
    assert made.error == pytest.approx(0.0)
    assert made.values.mean() == pytest.approx(rewards.mean())


def test_without_overlap_the_model_is_left_with_its_error() -> None:
    made = corrected_model(one_step(np.ones(3)), 1.0, np.full(3, -np.inf), np.array([0.1, 0.2, 0.3]), 0.15)
    np.testing.assert_array_equal(made.values, [0.1, 0.2, 0.3])
    assert (made.share, made.error) == (0.0, 0.15)
    sure = corrected_model(one_step(np.array([0.0, 1.0])), 1.0, np.zeros(2), np.full(2, 0.2), 0.0)
    assert (sure.share, sure.values.mean()) == (0.0, pytest.approx(0.2)), "a model that never errs needs no correction"


def test_the_share_is_that_of_least_squared_error() -> None:
    """Four episodes of equal weight, of eight: half of what the candidate does is not in the log."""
    rewards = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    imagined, model_error = np.full(8, 0.5), 0.2
    weights = np.where(np.arange(8) < 4, 0.0, -np.inf)
    made = corrected_model(one_step(rewards), 1.0, weights, imagined, model_error)
    used = rewards[:4] - 0.5
    spread = np.zeros(8)
    spread[:4] = 2 * (used - used.mean()) / (1 - 1 / 4)  # the influence of each, with the jackknife's factor
    variance = max(spread.var(ddof=1) / 8, (rewards - 0.5).var() / 4) + 0.5**2 * (rewards - 0.5).var()
    shares = np.linspace(0, 1, 100_001)
    best = shares[np.argmin((1 - shares) ** 2 * model_error**2 + shares**2 * variance)]
    assert made.share == pytest.approx(best, abs=1e-5)
    assert made.values.mean() == pytest.approx(0.5 + made.share * used.mean())


def test_episodes_of_one_task_count_as_one_draw() -> None:
    rewards = np.tile([0.0, 1.0], 8)
    imagined = np.full(16, 0.4)
    apart = corrected_model(one_step(rewards), 1.0, np.zeros(16), imagined, 0.3)
    together = corrected_model(one_step(rewards, tasks=rewards.astype(np.int64)), 1.0, np.zeros(16), imagined, 0.3)
    assert together.share < apart.share


def test_few_and_light_weights_correct_little() -> None:
    rewards, imagined = np.tile([0.0, 1.0], 50), np.full(100, 0.2)
    many = corrected_model(one_step(rewards), 1.0, np.zeros(100), imagined, 0.2)
    one_only = np.full(100, -np.inf)
    one_only[1] = np.log(100.0)
    few = corrected_model(one_step(rewards), 1.0, one_only, imagined, 0.2)
    lacking = corrected_model(one_step(rewards), 1.0, np.full(100, np.log(0.1)), imagined, 0.2)
    assert few.share < 0.2
    assert lacking.share < 0.2
    assert many.share > 0.9


@pytest.mark.parametrize("bias", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("episodes", [20, 200])
def test_it_is_nearly_as_good_as_the_better_one_of_model_and_weights(bias: float, episodes: int) -> None:
    """Two actions, taken alike by the log; the candidate takes the second. 400 logs; the model errs by `bias`."""
    generator = np.random.default_rng(0)
    errors = []
    for _ in range(400):
        second = generator.random(episodes) < 0.5
        rewards = (generator.random(episodes) < np.where(second, 0.7, 0.2)).astype(float)
        weights = np.where(second, np.log(2.0), -np.inf)
        imagined = np.full(episodes, 0.7 + bias)
        made = corrected_model(one_step(rewards), 1.0, weights, imagined, max(bias, 0.03))
        errors.append((made.values.mean() - 0.7, bias, rewards[second].mean() - 0.7))
    blend, model, weighted = np.sqrt(np.mean(np.square(errors), axis=0))
    assert blend < 1.25 * min(model, weighted) + 0.015
    assert blend < max(model, weighted)


def test_one_imagined_value_per_episode_is_needed() -> None:
    with pytest.raises(RefusalError, match="one per episode is needed"):
        corrected_model(one_step(np.ones(3)), 1.0, np.zeros(3), np.ones(2), 0.1)


def test_few_effective_episodes_flag_weights_and_not_what_is_guarded_against_them() -> None:
    few, returns = Diagnostics(100, 50, ess=3.0), np.array([0.0, 1.0])
    table = {
        "weights": Estimator(lambda: np.zeros(2), ("weights",)),
        "guarded": Estimator(lambda: np.zeros(2), ("weights",), guarded=True),
    }
    values = np.array([0.2, 0.4])
    assert "3.0 effective episodes" in (distrust("weights", values, few, returns, table) or "")
    assert distrust("guarded", values, few, returns, table) is None
    assert distrust("guarded", values, few, returns, table, ["log-probs are wrong"]) == "log-probs are wrong"
