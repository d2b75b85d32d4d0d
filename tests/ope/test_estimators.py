"""Every estimator against exact values: on a log that holds each path as often as it is likely, and as n grows."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tabular_world import DYADIC_BEHAVIOUR, TabularLog, TabularWorld, dyadic_world, population

from worldline.ope import estimators as e
from worldline.ope.features import Features, Ridge
from worldline.ope.log import RaggedLog, RefusalError, TargetLog
from worldline.ope.magic import magic, partial_returns
from worldline.ope.marginal import dice, embedded_ratios, state_marginal
from worldline.ope.values import behaviour_value, cross_fitted, linear_fqe, q_regression
from worldline.ope.weights import cumulative, log_ratios

TARGET = np.array([[0.2, 0.1, 0.7, 0.0], [0.8, 0.1, 0.0, 0.1]])


GAMMAS = [1.0, 0.9]


PENALTY = 1e-7


def weights_of(log: TabularLog, target: np.ndarray) -> np.ndarray:
    return cumulative(log_ratios(log.ragged, log.target(target)), log.ragged.offsets)


def one_hot(log: TabularLog) -> Features:
    """Features that tell apart every (time, state, action), through the same convolution as text features."""
    states, actions = log.world.rewards.shape
    width = actions * states * log.world.horizon
    rows = np.zeros((len(log.time), width))
    rows[np.arange(len(rows)), (log.time * states + log.state) * actions] = 1
    return Features(rows, np.eye(actions, width), log.action)


def linear(log: TabularLog, target: np.ndarray) -> tuple[Ridge, np.ndarray]:
    features, choices = one_hot(log), log.target(target).choices
    assert choices is not None
    return Ridge(features.taken.rows, PENALTY), features.expected(choices)


def exact_values(log: TabularLog, target: np.ndarray, gamma: float) -> e.Value:
    return e.Value(*log.at(*log.world.values(target, gamma)))


def wrong_values(log: TabularLog, target: np.ndarray) -> e.Value:
    """A poor model of the world, but with V the target's mean of Q: what DR must correct."""
    q = np.random.default_rng(3).normal(size=(log.world.horizon, *log.world.rewards.shape))
    return e.Value(*log.at(q, (q * target).sum(axis=2)))


Run = Callable[[TabularLog, np.ndarray, float], np.ndarray]


RUNS: dict[str, Run] = {
    "is": lambda log, target, gamma: e.importance(log.ragged, gamma, weights_of(log, target)),
    "wis": lambda log, target, gamma: e.weighted_importance(log.ragged, gamma, weights_of(log, target)),
    "pdis": lambda log, target, gamma: e.per_decision(log.ragged, gamma, weights_of(log, target)),
    "pdwis": lambda log, target, gamma: e.weighted_per_decision(log.ragged, gamma, weights_of(log, target)),
    "dr": lambda log, target, gamma: e.doubly_robust(
        log.ragged, gamma, weights_of(log, target), wrong_values(log, target)
    ),
    "wdr": lambda log, target, gamma: e.weighted_doubly_robust(
        log.ragged, gamma, weights_of(log, target), wrong_values(log, target)
    ),
    "magic": lambda log, target, gamma: magic(
        log.ragged, gamma, weights_of(log, target), exact_values(log, target, gamma)
    ),
    "lfqe": lambda log, target, gamma: e.start_value(log.ragged, gamma, fitted(log, target, gamma)),
    "qreg": lambda log, target, gamma: e.start_value(log.ragged, gamma, regressed(log, target, gamma)),
    "dice": lambda log, target, gamma: dice(log.ragged, gamma, *linear(log, target)),
    "mis": lambda log, target, gamma: state_marginal(
        log.ragged, gamma, log_ratios(log.ragged, log.target(target)), one_hot(log).states, PENALTY
    ),
    "mips": lambda log, target, gamma: e.per_decision(log.ragged, gamma, pooled(log, target)),
}


def fitted(log: TabularLog, target: np.ndarray, gamma: float) -> e.Value:
    taken, expected = linear(log, target)
    return linear_fqe(log.ragged, gamma, taken, expected).read(taken.rows, expected)


def regressed(log: TabularLog, target: np.ndarray, gamma: float) -> e.Value:
    ratios = log_ratios(log.ragged, log.target(target))
    weights = cumulative(ratios, log.ragged.offsets)
    return q_regression(log.ragged, gamma, ratios, weights, *linear(log, target))


def pooled(log: TabularLog, target: np.ndarray) -> np.ndarray:
    ratios = log_ratios(log.ragged, log.target(target))
    return cumulative(embedded_ratios(ratios, linear(log, target)[0]), log.ragged.offsets)


@pytest.fixture(scope="module")
def everything() -> TabularLog:
    return population(dyadic_world(), DYADIC_BEHAVIOUR)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("name", RUNS)
def test_exact_on_the_whole_population(everything: TabularLog, name: str, gamma: float) -> None:
    exact = everything.world.value(TARGET, gamma)
    assert RUNS[name](everything, TARGET, gamma).mean() == pytest.approx(exact, abs=1e-5)
    assert abs(exact - everything.world.value(DYADIC_BEHAVIOUR, gamma)) > 0.02  # or NAIVE would do as well


@pytest.mark.parametrize("gamma", GAMMAS)
def test_behaviour_estimators_give_the_behaviour_value(everything: TabularLog, gamma: float) -> None:
    exact = everything.world.value(DYADIC_BEHAVIOUR, gamma)
    assert e.naive(everything.ragged, gamma).mean() == pytest.approx(exact, abs=1e-12)
    fit = behaviour_value(everything.ragged, gamma, one_hot(everything).states)
    assert fit.mean() == pytest.approx(exact, abs=1e-9)
    start = everything.state[everything.ragged.starts]
    v = everything.world.values(DYADIC_BEHAVIOUR, gamma)[1][0]
    np.testing.assert_allclose(fit, v[start], atol=1e-3)


def test_fitted_values_are_the_exact_ones(everything: TabularLog) -> None:
    exact = exact_values(everything, TARGET, 0.9)
    for value in (fitted(everything, TARGET, 0.9), regressed(everything, TARGET, 0.9)):
        np.testing.assert_allclose(value.q, exact.q, atol=1e-4)
        np.testing.assert_allclose(value.v, exact.v, atol=1e-4)


def test_cross_fitted_dr_is_exact_up_to_the_draw_of_its_folds(everything: TabularLog) -> None:
    value = cross_fitted(everything.ragged, 0.9, *linear(everything, TARGET), seed=0)
    estimate = e.doubly_robust(everything.ragged, 0.9, weights_of(everything, TARGET), value).mean()
    assert estimate == pytest.approx(everything.world.value(TARGET, 0.9), abs=1e-3)
    np.testing.assert_allclose(value.q, exact_values(everything, TARGET, 0.9).q, atol=0.05)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_an_imagined_critic_is_exact_whatever_it_imagines(everything: TabularLog, gamma: float) -> None:
    """On every path of the world; it is DR with the imagined value less the rewards so far, and a good one helps."""
    log, weights = everything.ragged, weights_of(everything, TARGET)
    start = everything.state[log.starts]
    exact = everything.world.values(TARGET, gamma)[1][0][start]
    for imagined in (np.zeros(log.episodes), np.array([0.3, -2.0])[start], exact):
        values = e.imagined_critic(log, gamma, weights, imagined)
        assert values.mean() == pytest.approx(everything.world.value(TARGET, gamma), abs=1e-9)
        earned = cumulative(log.rewards * log.discounts(gamma), log.offsets) - log.rewards * log.discounts(gamma)
        left = (np.repeat(imagined, log.lengths) - earned) / log.discounts(gamma)
        np.testing.assert_allclose(values, e.doubly_robust(log, gamma, weights, e.Value(left, left)), atol=1e-9)
    assert values.std() < e.importance(log, gamma, weights).std()
    with pytest.raises(RefusalError, match="one per episode is needed"):
        e.imagined_critic(log, gamma, weights, exact[1:])


def test_mips_pools_actions_that_are_alike() -> None:
    """Two action texts that do the same: pooling their ratios keeps the mean and takes away spread."""
    world = dyadic_world()
    for table in (world.moves, world.stops, world.rewards):
        table[:, 1] = table[:, 0]
    log = population(world, DYADIC_BEHAVIOUR)
    target = np.array([[0.7, 0.0, 0.3, 0.0], [0.0, 0.9, 0.0, 0.1]])
    same = np.where(log.action == 1, 0, log.action)
    key = log.state * 4 + same
    rows = np.eye(key.max() + 1)[key]
    ratios = log_ratios(log.ragged, log.target(target))
    pooled = e.per_decision(log.ragged, 1.0, cumulative(embedded_ratios(ratios, Ridge(rows, 1e-9)), log.ragged.offsets))
    plain = e.per_decision(log.ragged, 1.0, cumulative(ratios, log.ragged.offsets))
    assert pooled.mean() == pytest.approx(world.value(target, 1.0), abs=1e-6)
    assert pooled.std() < 0.7 * plain.std()


@pytest.mark.parametrize("name", ["is", "wis", "pdis", "pdwis", "dr", "wdr", "lfqe", "dice", "mis"])
def test_error_shrinks_as_one_over_root_n(name: str) -> None:
    world = TabularWorld.random(7, states=3, tasks=20, horizon=4)
    behaviour = world.policy(1)
    target = world.mixed(world.policy(2, temperature=2.0), 0.2)
    exact = world.value(target, 1.0)
    sizes, seeds = (100, 1000, 10_000), 3 if name in ("lfqe", "dice") else 8
    errors = [
        np.sqrt(
            np.mean(
                [
                    (RUNS[name](world.play(behaviour, n, seed=100 * n + s), target, 1.0).mean() - exact) ** 2
                    for s in range(seeds)
                ]
            )
        )
        for n in sizes
    ]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.9 < slope < -0.25, errors
    assert errors[-1] < 0.05


@st.composite
def logs(draw: st.DrawFn) -> tuple[RaggedLog, TargetLog, e.Value]:
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=10))
    seed = draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    steps = sum(lengths)
    log = RaggedLog(
        rewards=rng.normal(size=steps),
        behaviour=-rng.exponential(size=steps),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        tasks=np.arange(len(lengths)) // 2,
        policies=np.zeros(len(lengths), dtype=np.int64),
        terminated=np.ones(len(lengths), dtype=bool),
    )
    return log, TargetLog(-rng.exponential(size=steps)), e.Value(rng.normal(size=steps), rng.normal(size=steps))


WEIGHTED = (e.importance, e.weighted_importance, e.per_decision, e.weighted_per_decision)


ROBUST = (e.doubly_robust, e.weighted_doubly_robust)


def all_values(log: RaggedLog, weights: np.ndarray, value: e.Value, gamma: float) -> np.ndarray:
    plain = [f(log, gamma, weights).mean() for f in WEIGHTED]
    return np.array(plain + [f(log, gamma, weights, value).mean() for f in ROBUST])


@given(logs(), st.sampled_from(GAMMAS))
def test_ratio_one_gives_the_on_policy_mean(made: tuple[RaggedLog, TargetLog, e.Value], gamma: float) -> None:
    log, _, value = made
    mean = log.returns(gamma).mean()
    on_policy = e.Value(value.q, value.q)
    np.testing.assert_allclose(all_values(log, np.zeros(log.steps), on_policy, gamma), mean, atol=1e-9)


@given(logs(), st.sampled_from(GAMMAS), st.floats(-3, 3), st.floats(-2, 2))
def test_reward_scale_and_shift(
    made: tuple[RaggedLog, TargetLog, e.Value], gamma: float, scale: float, shift: float
) -> None:
    log, target, value = made
    weights = cumulative(log_ratios(log, target), log.offsets)
    scaled = all_values(_with(log, scale * log.rewards), weights, e.Value(scale * value.q, scale * value.v), gamma)
    np.testing.assert_allclose(scaled, scale * all_values(log, weights, value, gamma), rtol=1e-6, atol=1e-8)
    # A shift of the last reward moves every return by shift * gamma^(T-1): WIS moves by the weighted mean of that.
    last = log.rewards.copy()
    last[log.ends] += shift
    final = np.exp(weights[log.ends] - weights[log.ends].max())
    moved = shift * (final / final.sum()) @ gamma ** (log.lengths - 1.0)
    before = e.weighted_importance(log, gamma, weights).mean()
    assert e.weighted_importance(_with(log, last), gamma, weights).mean() == pytest.approx(before + moved, abs=1e-8)


@given(logs(), st.randoms(use_true_random=False))
def test_order_of_episodes_does_not_matter(made: tuple[RaggedLog, TargetLog, e.Value], random: Random) -> None:
    log, target, value = made
    weights = cumulative(log_ratios(log, target), log.offsets)
    order = np.arange(log.episodes)
    random.shuffle(order)
    rows = log.step_rows(order)
    shuffled = all_values(log.take(order), weights[rows], e.Value(value.q[rows], value.v[rows]), 0.9)
    np.testing.assert_allclose(shuffled, all_values(log, weights, value, 0.9), rtol=1e-7, atol=1e-9)


@given(logs(), st.sampled_from(GAMMAS))
@settings(max_examples=50)
def test_ragged_equals_padded_with_zero_reward(made: tuple[RaggedLog, TargetLog, e.Value], gamma: float) -> None:
    log, target, value = made
    weights = cumulative(log_ratios(log, target), log.offsets)
    n, horizon = log.episodes, log.horizon
    where = np.repeat(np.arange(n), log.lengths) * horizon + log.time

    def pad(x: np.ndarray) -> np.ndarray:
        full = np.zeros(n * horizon)
        full[where] = x
        return full

    padded = RaggedLog(
        pad(log.rewards), pad(log.behaviour), np.arange(n + 1) * horizon, log.tasks, log.policies, log.terminated
    )
    full_weights = cumulative(pad(target.logprobs) - pad(log.behaviour), padded.offsets)
    full = all_values(padded, full_weights, e.Value(pad(value.q), pad(value.v)), gamma)
    np.testing.assert_allclose(full, all_values(log, weights, value, gamma), rtol=1e-7, atol=1e-9)


@given(logs().filter(lambda made: made[0].episodes > 1))
def test_magic_goes_from_model_to_wdr(made: tuple[RaggedLog, TargetLog, e.Value]) -> None:
    log, target, value = made
    weights = cumulative(log_ratios(log, target), log.offsets)
    returns = partial_returns(log, 0.9, weights, value).mean(axis=0)
    assert returns[0] == pytest.approx(value.v[log.starts].mean())
    assert returns[-1] == pytest.approx(e.weighted_doubly_robust(log, 0.9, weights, value).mean(), abs=1e-8)
    blended = magic(log, 0.9, weights, value).mean()
    assert returns.min() - 1e-9 <= blended <= returns.max() + 1e-9


def test_a_thousand_nats_neither_overflow_nor_give_nan() -> None:
    rng = np.random.default_rng(0)
    n, length = 200, 10
    signs = np.repeat(rng.choice([-1, 1], size=n), length)
    log = RaggedLog(
        rewards=rng.random(n * length),
        behaviour=np.where(signs > 0, -50.0, 0.0),
        offsets=np.arange(n + 1) * length,
        tasks=np.arange(n),
        policies=np.zeros(n, dtype=np.int64),
        terminated=np.ones(n, dtype=bool),
    )
    weights = cumulative(np.where(signs > 0, 0.0, -50.0) - log.behaviour, log.offsets)
    assert set(np.round(weights[log.ends])) == {-500.0, 500.0}
    value = e.Value(rng.random(log.steps), rng.random(log.steps))
    with np.errstate(over="raise", invalid="raise"):
        values = [f(log, 1.0, weights) for f in WEIGHTED] + [f(log, 1.0, weights, value) for f in ROBUST]
        values.append(magic(log, 1.0, weights, value))
    assert np.isfinite(values).all()
    wis = values[1].mean()
    up = signs[log.starts] > 0
    assert wis == pytest.approx(log.returns(1.0)[up].mean())


def test_no_weight_at_all_is_refused() -> None:
    log = RaggedLog(
        np.ones(3), np.zeros(3), np.array([0, 1, 3]), np.arange(2), np.zeros(2, dtype=np.int64), np.ones(2, dtype=bool)
    )
    for function in WEIGHTED:
        with pytest.raises(RefusalError, match="all importance weights are 0"):
            function(log, 1.0, np.full(3, -np.inf))


def _with(log: RaggedLog, rewards: np.ndarray) -> RaggedLog:
    return RaggedLog(rewards, log.behaviour, log.offsets, log.tasks, log.policies, log.terminated)


def test_the_control_variate_is_unbiased_whatever_was_imagined() -> None:
    """Two actions, one step: the behaviour takes either, the target the second; rewards 0 and 1, value 1."""
    log = RaggedLog(
        rewards=np.array([0.0, 1.0]),
        behaviour=np.log([0.5, 0.5]),
        offsets=np.array([0, 1, 2]),
        tasks=np.array([0, 1]),
        policies=np.array([0, 0]),
        terminated=np.array([True, True]),
    )
    weights = np.array([-np.inf, np.log(2.0)])
    for imagined in (np.zeros(2), np.full(2, 0.3), np.full(2, 5.0)):
        assert e.control_variate(log, 1.0, weights, imagined).mean() == pytest.approx(1.0)
    nothing = np.full(2, -np.inf)
    assert e.control_variate(log, 1.0, nothing, np.full(2, 0.3)).mean() == pytest.approx(0.3)
