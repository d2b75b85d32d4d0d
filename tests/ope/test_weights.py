"""Cumulative, clipped, balanced and self-normalised weights against loops over episodes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tabular_world import TabularWorld

from worldline.ope.log import RaggedLog, RefusalError, TargetLog
from worldline.ope.weights import (
    clipped,
    cumulative,
    diagnose,
    log_ratios,
    mixture_logprobs,
    normalised,
    pareto_shape,
    previous,
    self_normalised,
)

ragged = st.lists(
    st.lists(st.one_of(st.floats(-50, 50), st.just(-np.inf)), min_size=1, max_size=7), min_size=1, max_size=12
)


def make(lengths: list[int]) -> RaggedLog:
    steps = sum(lengths)
    zeros = np.zeros(len(lengths), dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return RaggedLog(np.zeros(steps), np.zeros(steps), offsets, zeros, zeros, zeros.astype(bool))


@given(ragged)
def test_cumulative_is_cumsum_per_episode(episodes: list[list[float]]) -> None:
    log = make([len(e) for e in episodes])
    expected = np.concatenate([np.cumsum(e) for e in episodes])
    got = cumulative(np.concatenate(episodes), log.offsets)
    np.testing.assert_allclose(got, expected, atol=1e-9)
    assert np.array_equal(np.isneginf(got), np.isneginf(expected))


def test_cumulative_keeps_precision_on_a_long_log() -> None:
    rng = np.random.default_rng(0)
    ratios = rng.normal(0, 100, size=400_000)
    offsets = np.arange(0, 400_001, 8)
    exact = np.cumsum(ratios.reshape(-1, 8), axis=1).ravel()
    assert np.abs(cumulative(ratios, offsets) - exact).max() < 1e-8


@given(ragged.filter(lambda e: any(np.isfinite(sum(x)) for x in e)), st.floats(0.5, 1.0), st.integers(0, 99))
@settings(max_examples=60)
def test_self_normalised_equals_the_padded_ratio(episodes: list[list[float]], gamma: float, seed: int) -> None:
    log = make([len(e) for e in episodes])
    weights = cumulative(np.concatenate(episodes), log.offsets)
    x = np.random.default_rng(seed).normal(size=log.steps)
    horizon = log.horizon
    padded_w = np.stack([np.pad(np.cumsum(e), (0, horizon - len(e)), mode="edge") for e in episodes])
    padded_x = np.zeros_like(padded_w)
    padded_x[np.repeat(np.arange(len(episodes)), log.lengths), log.time] = x
    shifted = np.exp(padded_w - padded_w.max(axis=0))
    expected = (gamma ** np.arange(horizon) * (shifted * padded_x).sum(axis=0) / shifted.sum(axis=0)).sum()
    values = self_normalised(x, normalised(weights, weights[log.ends], log), log, gamma)
    assert values.mean() == pytest.approx(expected, rel=1e-7, abs=1e-9)


def test_linearised_spread_is_the_jackknife_spread() -> None:
    """The per-episode values of a ratio estimator must vary as the estimator itself varies over samples."""
    world = TabularWorld.random(3, tasks=1)
    behaviour, target = world.policy(1), world.policy(2, temperature=2.0)
    log = world.play(behaviour, 300, seed=5)
    flat = log.ragged
    weights = log_weights(flat, log.target(target))

    def estimate(keep: np.ndarray) -> float:
        part, rows = flat.take(keep), flat.step_rows(keep)
        scheme = normalised(weights[rows], weights[rows][part.ends], part)
        return float(self_normalised(part.rewards, scheme, part, 1.0).mean())

    everyone = np.arange(flat.episodes)
    left_out = np.array([estimate(np.delete(everyone, i)) for i in everyone])
    jackknife = np.sqrt((flat.episodes - 1) / flat.episodes * ((left_out - left_out.mean()) ** 2).sum())
    values = self_normalised(flat.rewards, normalised(weights, weights[flat.ends], flat), flat, 1.0)
    assert values.std(ddof=1) / np.sqrt(flat.episodes) == pytest.approx(jackknife, rel=0.05)


def test_normalising_over_survivors_only_would_be_biased() -> None:
    """Mean weight per step is 1 in expectation only if ended episodes keep their last weight."""
    world = TabularWorld.random(11)
    world = replace(world, stops=np.where(np.arange(4) == 0, 0.5, 0.02) * np.ones((5, 1)))
    log = world.play(world.policy(1), 40_000, seed=2)
    flat = log.ragged
    weights = log_weights(flat, log.target(world.policy(2)))
    mean = np.exp(normalised(weights, weights[flat.ends], flat).log_mean)
    assert np.abs(mean - 1).max() < 0.1
    survivors = np.exp(weights[flat.time == 5]).mean()
    assert abs(survivors - 1) > 0.1


def test_mixture_of_one_logger_is_that_logger() -> None:
    world = TabularWorld.random(0)
    log = world.play(world.policy(1), 50, seed=0).ragged
    np.testing.assert_allclose(mixture_logprobs(log, log.behaviour[None]), log.behaviour, atol=1e-10)


def test_balanced_weights_against_a_loop() -> None:
    world = TabularWorld.random(0)
    loggers = [world.policy(1), world.policy(2)]
    flat, tables = _two_loggers(world, loggers, (30, 90))
    target = world.policy(3)
    state, action = tables
    scores = np.stack([np.log(policy[state, action]) for policy in loggers])
    mixed = replace(flat, behaviour=mixture_logprobs(flat, scores))
    got = log_weights(mixed, TargetLog(np.log(target[state, action])))
    for episode in range(flat.episodes):
        rows = slice(flat.offsets[episode], flat.offsets[episode + 1])
        top = np.cumprod(target[state[rows], action[rows]])
        bottom = 0.25 * np.cumprod(loggers[0][state[rows], action[rows]])
        bottom += 0.75 * np.cumprod(loggers[1][state[rows], action[rows]])
        np.testing.assert_allclose(np.exp(got[rows]), top / bottom, rtol=1e-9)


def log_weights(log: RaggedLog, target: TargetLog) -> np.ndarray:
    return cumulative(log_ratios(log, target), log.offsets)


def _two_loggers(
    world: TabularWorld, loggers: list[np.ndarray], counts: tuple[int, int]
) -> tuple[RaggedLog, tuple[np.ndarray, np.ndarray]]:
    logs = [world.play(policy, n, seed=k) for k, (policy, n) in enumerate(zip(loggers, counts, strict=True))]
    parts = [log.ragged for log in logs]
    flat = RaggedLog(
        rewards=np.concatenate([p.rewards for p in parts]),
        behaviour=np.concatenate([p.behaviour for p in parts]),
        offsets=np.concatenate([parts[0].offsets, parts[0].steps + parts[1].offsets[1:]]),
        tasks=np.concatenate([p.tasks for p in parts]),
        policies=np.repeat([0, 1], counts),
        terminated=np.concatenate([p.terminated for p in parts]),
    )
    return flat, (np.concatenate([x.state for x in logs]), np.concatenate([x.action for x in logs]))


def test_previous_and_clipped() -> None:
    log = make([2, 3])
    weights = np.array([1.0, 2.0, -1.0, 5.0, -np.inf])
    np.testing.assert_array_equal(previous(weights, log), [0.0, 1.0, 0.0, -1.0, 5.0])
    np.testing.assert_allclose(np.exp(clipped(weights, np.e)), np.exp([1.0, 1.0, -1.0, 1.0, -np.inf]))


def test_effective_sample_size() -> None:
    equal = diagnose(np.full(40, 321.0))
    assert equal.ess == pytest.approx(40)
    assert equal.largest_share == pytest.approx(1 / 40)
    assert diagnose(np.array([900.0, 0.0, -900.0])).ess == pytest.approx(1.0)
    dead = diagnose(np.full(5, -np.inf))
    assert (dead.ess, dead.mean, dead.pareto_k) == (0.0, 0.0, None)


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0])
def test_pareto_shape_finds_the_tail(shape: float) -> None:
    uniform = np.random.default_rng(1).random(40_000)
    assert pareto_shape((1 - uniform) ** -shape) == pytest.approx(shape, abs=0.12)


def test_few_distinct_weights_have_no_tail() -> None:
    """Three values with the noise of rounding: the noise is no tail."""
    rng = np.random.default_rng(0)
    weights = rng.choice([0.2, 1.0, 4.0], p=[0.6, 0.3, 0.1], size=600)
    assert pareto_shape(weights) is None
    assert pareto_shape(weights * (1 + 1e-15 * rng.normal(size=600))) is None


def test_where_most_episodes_count_there_is_no_tail_index() -> None:
    """A logger as its own candidate, recomputed at a slightly other temperature: the largest weight is 1.7."""
    rng = np.random.default_rng(0)
    final = np.clip(0.2 * rng.standard_t(2, size=600), -0.5, np.log(1.7))
    measured = diagnose(final)
    assert measured.ess > 520
    assert measured.pareto_k is None
    heavy = diagnose(np.log((1 - rng.random(4000)) ** -1.0))
    assert heavy.pareto_k == pytest.approx(1.0, abs=0.3)


def test_unknown_behaviour_names_the_column() -> None:
    log = RaggedLog(
        np.zeros(2), np.array([np.nan, -1.0]), np.array([0, 2]), np.zeros(1, int), np.zeros(1, int), np.zeros(1, bool)
    )
    with pytest.raises(RefusalError, match="column 'logprob' is empty in 1 of 2 steps"):
        log_ratios(log, TargetLog(np.array([-1.0, -1.0])))
