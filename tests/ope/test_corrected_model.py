"""The blend of a world model and the weighted log, against closed forms and simulated logs."""

import numpy as np
import pytest

from worldline.ope.corrected_model import CorrectedModel, ModelCorrection, corrected_model, correction, model_variance
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


def sized(size: float, squared_error: float) -> ModelCorrection:
    return ModelCorrection(np.full(2, size), squared_error, 0.0)


def made(log: RaggedLog, weights: np.ndarray, imagined: np.ndarray, variance: float = 0.04) -> CorrectedModel:
    return corrected_model(imagined, correction(log, 1.0, weights, imagined), variance, 0.3)


def test_a_model_that_the_weighted_log_agrees_with_is_left_alone() -> None:
    rewards, weights = np.array([0.0, 1.0, 0.5, 0.25]), np.array([2.0, 0.1, 1.0, 0.9])
    imagined = np.full(4, weights @ rewards / weights.sum())
    result = made(one_step(rewards), np.log(weights), imagined)
    assert result.values.mean() == pytest.approx(imagined[0])


def test_the_correction_is_wis_less_the_models_mean_and_doubted_by_as_much_as_pdwis_differs() -> None:
    """Two steps each: of the second episode the first step counts in PDWIS alone."""
    rewards, ratios = np.array([1.0, 0.0, 0.0, 1.0]), np.array([0.5, 4.0, 1.5, 0.0])
    log = RaggedLog(
        rewards=rewards,
        behaviour=np.full(4, np.log(0.5)),
        offsets=np.array([0, 2, 4]),
        tasks=np.arange(2),
        policies=np.zeros(2, dtype=np.int64),
        terminated=np.ones(2, dtype=np.bool_),
    )
    with np.errstate(divide="ignore"):
        weights = np.log([ratios[0], ratios[0] * ratios[1], ratios[2], ratios[2] * ratios[3]])
    against = correction(log, 1.0, weights, np.array([0.1, 0.3]))
    assert against.size == pytest.approx(1.0 - 0.2)
    pdwis = 0.5 / (0.5 + 1.5)
    equal_by_chance = (1.0 - 0.1) ** 2 / (4 * (2 + 2))  # as far apart as the returns, 1, and the lowest value imagined
    assert against.unseen == pytest.approx(equal_by_chance + (1.0 - pdwis) ** 2)


def test_an_equal_error_in_every_episode_is_taken_out() -> None:
    """A mean of many episodes is sure; of two it is not, nor where the log lacks nearly all."""
    rewards = np.tile([0.0, 1.0, 0.5, 0.25], 100)
    against = correction(one_step(rewards), 1.0, np.zeros(400), rewards - 0.2)
    assert model_variance([against], 0.04) == pytest.approx(0.04, rel=0.01)
    result = corrected_model(rewards - 0.2, against, 0.04, 0.3)
    assert result.share > 0.99
    assert result.error < 0.04
    assert result.values.mean() == pytest.approx(rewards.mean(), abs=0.002)
    assert made(one_step(rewards[:2]), np.zeros(2), rewards[:2] - 0.2).share < 0.7
    assert made(one_step(rewards[:2]), np.full(2, -9.0), rewards[:2] - 0.2).share < 0.4


def test_a_model_that_is_right_only_where_the_log_shows_it_is_corrected() -> None:
    """Fitted on the log, it knows the starts at which someone acted as the candidate does, and no others."""
    shown = np.arange(200) < 50
    rewards, imagined = shown.astype(float), np.where(shown, 1.0, 0.2)
    weights = np.where(shown, np.log(4.0), -np.inf)
    result = made(one_step(rewards), weights, imagined)
    assert result.share > 0.8
    assert result.values.mean() > 0.85


def test_the_share_is_that_of_least_squared_error() -> None:
    """Four episodes of equal weight, of eight: half of what the candidate does is not in the log."""
    rewards = np.array([0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0])
    weights = np.where(np.arange(8) < 4, 0.0, -np.inf)
    against = correction(one_step(rewards), 1.0, weights, np.full(8, 0.5))
    used = rewards[:4] - 0.5
    assert against.size == pytest.approx(used.mean())
    spread = np.zeros(8)
    spread[:4] = 2 * (used - used.mean()) / (1 - 1 / 4)  # the influence of each, with the jackknife's factor
    scatter = (rewards - 0.5).var()
    squared_error = max(spread.var(ddof=1) / 8, scatter / 4) + 0.5**2 * scatter
    assert against.squared_error == pytest.approx(squared_error)
    shares = np.linspace(0, 1, 100_001)
    best = shares[np.argmin((1 - shares) ** 2 * 0.04 + shares**2 * squared_error)]
    result = corrected_model(np.full(8, 0.5), against, 0.04, 0.3)
    assert result.share == pytest.approx(best, abs=1e-5)
    assert result.values.mean() == pytest.approx(0.5 + best * used.mean(), abs=1e-5)
    squared = (1 - best) ** 2 * 0.3**2 + best**2 * against.unseen + best * (1 - best) * used.mean() ** 2
    assert result.error == pytest.approx(np.sqrt(squared), abs=1e-5)


def test_the_models_variance_is_what_corrections_scatter_by_beyond_their_own_errors() -> None:
    """With equal errors: the mean square of the corrections less that error, where three like it were expected."""
    sizes = [sized(0.3, 0.01), sized(-0.1, 0.01)]
    assert model_variance(sizes, 0.04) == pytest.approx((0.09 + 0.01) / 2 - 0.01)
    lower, higher = model_variance(sizes, 0.02), model_variance(sizes, 0.08)
    assert 0.02 < lower < 0.04 < higher < 0.08
    assert 0.0 < model_variance([sized(0.05, 0.01), sized(-0.1, 0.01)], 0.01) < 0.01, "these are noise"
    assert model_variance([], 0.04) == pytest.approx(0.04)
    nothing_expected = model_variance(sizes, 0.0)
    assert nothing_expected > 0
    assert nothing_expected == pytest.approx(model_variance(sizes, 1e-12), abs=1e-6)
    assert model_variance([sized(0.1, 0.01)], 0.0) == 0.0
    precise = model_variance([sized(0.01, 1e-5), *[sized(0.4, 0.01)] * 4], 0.01)
    assert 0.07 < precise < 0.08, "one that is precise does not silence the others"
    generator = np.random.default_rng(0)
    errors = generator.uniform(0.01, 0.1, 4000)
    sizes = [sized(*one) for one in zip(generator.normal(0, np.sqrt(0.02 + errors)), errors, strict=True)]
    for expected in (0.001, 0.1):
        assert model_variance(sizes, expected) == pytest.approx(0.02, rel=0.1), "many corrections decide"


def test_episodes_of_one_task_count_as_one_draw() -> None:
    rewards = np.tile([0.0, 1.0], 8)
    imagined = np.full(16, 0.4)
    apart = made(one_step(rewards), np.zeros(16), imagined)
    together = made(one_step(rewards, tasks=rewards.astype(np.int64)), np.zeros(16), imagined)
    assert together.share < apart.share


@pytest.mark.parametrize("episodes", [1, 40])
def test_equal_returns_of_another_policy_say_little(episodes: int) -> None:
    """Nearly all that the candidate does is not in the log, however alike the log's episodes are."""
    log, imagined = one_step(np.zeros(episodes)), np.full(episodes, 0.8)
    result = made(log, np.full(episodes, np.log(1e-4)), imagined, variance=0.01)
    assert result.share < 0.05
    assert result.error > 0.2


def test_few_and_light_weights_correct_little() -> None:
    log, imagined = one_step(np.tile([0.0, 1.0], 50)), np.full(100, 0.2)
    one_only = np.where(np.arange(100) == 1, np.log(100.0), -np.inf)
    assert made(log, one_only, imagined).share < 0.2
    assert made(log, np.full(100, np.log(0.1)), imagined).share < 0.2
    assert made(log, np.zeros(100), imagined).share > 0.9


@pytest.mark.parametrize("bias", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("episodes", [20, 200])
def test_it_is_nearly_as_good_as_the_better_one_of_model_and_weights(bias: float, episodes: int) -> None:
    """Two actions, taken alike by the log; the candidates take the second with probability 1, .9 and .8.

    400 logs; the model errs by `bias`, and by .1 was expected: one that is right gets .70 of the error of weights.
    """
    generator = np.random.default_rng(0)
    errors = []
    for _ in range(400):
        second = generator.random(episodes) < 0.5
        rewards = (generator.random(episodes) < np.where(second, 0.7, 0.2)).astype(float)
        log = one_step(rewards)
        truth = [0.2 + 0.5 * often for often in (1.0, 0.9, 0.8)]
        weights = [np.log(np.maximum(np.where(second, 2 * often, 2 - 2 * often), 1e-300)) for often in (1.0, 0.9, 0.8)]
        imagined = [np.full(episodes, value + bias) for value in truth]
        against = [correction(log, 1.0, w, v) for w, v in zip(weights, imagined, strict=True)]
        blend = corrected_model(imagined[0], against[0], model_variance(against, 0.1**2), 0.1)
        errors.append((blend.values.mean() - 0.7, bias, rewards[second].mean() - 0.7))
    blended, model, weighted = np.sqrt(np.mean(np.square(errors), axis=0))
    assert blended < 1.5 * min(model, weighted) + 0.75 * weighted * (bias == 0)
    assert blended < max(model, weighted)


def test_one_imagined_value_per_episode_and_some_overlap_are_needed() -> None:
    with pytest.raises(RefusalError, match="one per episode is needed"):
        correction(one_step(np.ones(3)), 1.0, np.zeros(3), np.ones(2))
    with pytest.raises(RefusalError):
        correction(one_step(np.ones(3)), 1.0, np.full(3, -np.inf), np.ones(3))


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
