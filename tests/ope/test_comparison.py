"""Differences, probabilities and the winner's value: against sampling from the model, closed forms and simulation."""

import numpy as np
import pytest
from scipy import stats

from worldline.ope.comparison import COMMON, Comparison, compare, logged_values, posterior
from worldline.ope.estimation import EstimatorInput
from worldline.ope.intervals import interval, intervals


def comparison(columns: np.ndarray, errors: dict[str, float] | None = None) -> Comparison:
    names = {f"c{k}": column for k, column in enumerate(columns.T)}
    return compare(names, {}, np.arange(len(columns)), errors or {}, spread=1.0)


def test_the_posterior_of_one_tau_is_that_of_normal_theory() -> None:
    """With independent noise s and spread tau known, a value is shrunk to the mean by s^2 / (s^2 + tau^2)."""
    estimates, noise = np.array([0.1, 0.3, 0.8]), 0.04
    after = posterior(estimates, noise * np.eye(3), 1.0, 3)
    last = after.means[-1]  # tau = 1
    centre = estimates.mean()
    np.testing.assert_allclose(last, centre + (estimates - centre) * 1 / (1 + noise), rtol=1e-6)
    first = after.means[0]  # tau = 0: all alike
    np.testing.assert_allclose(first, centre, atol=1e-6)
    assert after.shares.sum() == pytest.approx(1)


def test_p_is_the_share_of_draws() -> None:
    covariance = np.array([[0.01, 0.004], [0.004, 0.02]])
    after = posterior(np.array([0.5, 0.4]), covariance, 1.0, 2)
    drawn = after.draws(200_000, 0)
    assert after.above(0, 1) == pytest.approx(float((drawn[:, 0] > drawn[:, 1]).mean()), abs=0.01)
    assert after.above(0, 1) + after.above(1, 0) == pytest.approx(1)


def test_policies_that_differ_by_rounding_share_the_first_place() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=400)
    result = comparison(shared[:, None] + 1e-12 * rng.normal(size=(400, 3)))
    assert list(result.p_best.values()) == pytest.approx([1 / 3] * 3, abs=1e-3)
    assert all(difference.p == pytest.approx(0.5, abs=1e-3) for difference in result.differences)


def test_p_best_of_two_is_p_of_their_difference() -> None:
    """Whatever the log can tell, a little or a lot."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=2000)
    for noise, distance in ((0.01, 0.0002), (0.1, 0.001), (0.1, 0.01)):
        result = comparison(np.stack([shared, shared + distance + noise * rng.normal(size=2000)], axis=1))
        (difference,) = result.differences
        assert result.p_best[difference.a] == pytest.approx(difference.p, abs=0.02)


def test_differences_are_paired() -> None:
    """Two candidates that move together: the difference is far surer than each of them."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=400)
    columns = np.stack([shared, shared + 0.05 + 0.1 * rng.normal(size=400)], axis=1)
    result = comparison(columns)
    (difference,) = result.differences
    assert (difference.a, difference.b) == ("c1", "c0")
    expected = interval(columns[:, 1] - columns[:, 0], np.arange(400))
    assert (difference.low, difference.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert difference.at_least is not None
    assert difference.low is not None
    assert 0 < difference.low < difference.at_least < difference.value
    assert difference.p > 0.99
    assert result.p_best["c1"] > 0.99
    wide = interval(columns[:, 1], np.arange(400))
    assert (wide.high or 0) - (wide.low or 0) > 5 * ((difference.high or 0) - difference.low)


def test_a_models_error_makes_differences_less_sure() -> None:
    rng = np.random.default_rng(0)
    shared = rng.normal(size=400)
    columns = np.stack([shared, shared + 0.05], axis=1)
    sure, unsure = comparison(columns), comparison(columns, {"c0": 0.1, "c1": 0.1})
    assert sure.differences[0].p > 0.999
    assert unsure.differences[0].p < 0.75
    assert (unsure.differences[0].low or 0) < 0 < (sure.differences[0].low or 0)


def test_no_interval_goes_beyond_a_win_and_a_loss() -> None:
    """Losses of -1 and wins of 1, of which the normal model knows nothing: two values differ by 2 at most."""
    nearly, seldom = np.array([1.0] * 5 + [-1.0]), np.array([-1.0] * 5 + [1.0])
    given = {"c0": nearly, "c1": seldom}, {"v1": seldom}, np.arange(6), {"c0": 2.0, "c1": 2.0}, 2.0
    free, ended = compare(*given), compare(*given, ends=(-1.0, 1.0))
    assert free.winner.high > 1
    assert (ended.winner.low, ended.winner.high) == (-1.0, 1.0)
    assert ended.winner.corrected == free.winner.corrected
    assert all((each.low, each.high) == (-1.0, 1.0) for each in ended.simultaneous.values())
    assert [(d.low, d.high, d.at_least) for d in ended.differences] == [(-2.0, 2.0, -2.0)] * 3
    assert [d.p for d in ended.differences] == [d.p for d in free.differences]
    beyond = compare({"c0": nearly + 1.0, "c1": seldom}, *given[1:], ends=(-1.0, 1.0))
    assert beyond.winner.high > 1, "an estimate of weights may lie there itself"


def test_identical_candidates_are_a_toss() -> None:
    column = np.random.default_rng(0).normal(size=100)
    result = comparison(np.stack([column, column], axis=1))
    assert result.differences[0].p == pytest.approx(0.5, abs=0.01)
    assert result.p_best["c0"] == pytest.approx(0.5, abs=0.05)


def test_p_is_calibrated_and_the_winner_is_corrected() -> None:
    """Six values drawn from N(.5, .05) with noise .05 each: of those stated .9 and more, .9 and more are right."""
    rng = np.random.default_rng(0)
    stated, right, naive, corrected = [], [], [], []
    for _ in range(250):
        values = 0.5 + 0.05 * rng.normal(size=6)
        columns = values + rng.normal(size=(100, 6)) * 0.5
        after = posterior(columns.mean(axis=0), np.cov(columns, rowvar=False) / 100, 1.0, 6)
        top = int(columns.mean(axis=0).argmax())
        naive.append(columns.mean(axis=0)[top] - values[top])
        corrected.append(after.mean[top] - values[top])
        for b in range(1, 6):
            p = after.above(0, b)
            stated.append(max(p, 1 - p))
            right.append((values[0] > values[b]) == (p >= 0.5))
    stated, right = np.array(stated), np.array(right)
    for low in (0.5, 0.6, 0.7, 0.8, 0.9):
        inside = (stated >= low) & (stated < low + 0.1001)
        if inside.sum() > 100:
            assert right[inside].mean() == pytest.approx(stated[inside].mean(), abs=0.07)
    assert np.mean(naive) > 0.04
    assert abs(np.mean(corrected)) < 0.012


def test_simultaneous_intervals_hold_together() -> None:
    """Ten independent means: pointwise 95 % intervals hold all ten in 60 % of logs, simultaneous ones in 95 %."""
    rng = np.random.default_rng(0)
    pointwise, together = 0, 0
    names = [f"c{k}" for k in range(10)]
    for seed in range(200):
        columns = rng.normal(size=(150, 10))
        compared = compare(dict(zip(names, columns.T, strict=True)), {}, np.arange(150), {}, 1.0, 0.95, 400, seed)
        together += all((each.low or 0) <= 0 <= (each.high or 0) for each in compared.simultaneous.values())
        half = stats.t.ppf(0.975, 149) * columns.std(axis=0, ddof=1) / np.sqrt(150)
        pointwise += bool((np.abs(columns.mean(axis=0)) <= half).all())
    assert pointwise < 140
    assert 178 <= together <= 199


def test_an_interval_that_holds_together_with_others_is_never_within_the_one_that_holds_alone() -> None:
    """Weights are skewed: the interval of one candidate reaches further up than its deviation says."""
    rng = np.random.default_rng(1)
    tasks = np.arange(40)
    for size in (1, 2, 5):
        columns = {f"c{k}": rng.pareto(1.5, size=40) for k in range(size)}
        single = intervals(list(columns.values()), tasks)
        for each, alone in zip(compare(columns, {}, tasks, {}, 1.0).simultaneous.values(), single, strict=True):
            assert each.low is not None and each.high is not None and alone.low is not None and alone.high is not None
            assert each.low <= alone.low < alone.high <= each.high


def test_loggers_are_valued_by_their_own_episodes(evidence: EstimatorInput) -> None:
    values = logged_values(evidence.log, 1.0)
    returns = evidence.log.returns(1.0)
    for k, name in enumerate("abcd"):
        assert values[name].mean() == pytest.approx(returns[300 * k : 300 * k + 300].mean())
    result = compare({"x": returns}, values, evidence.log.tasks, {}, 1.0)
    assert {d.b for d in result.differences} == {f"logged {name}" for name in "abcd"}
    assert all(d.a == "x" for d in result.differences)


def test_one_candidate_is_not_shrunk() -> None:
    """Nobody picked it, whatever the loggers are worth: by normal theory its value stays, and its interval."""
    rng = np.random.default_rng(0)
    tasks, loggers = np.arange(400), {f"v{k}": 0.1 + 0.01 * rng.normal(size=400) for k in range(3)}
    column = 0.3 + 0.1 * rng.normal(size=400)
    winner = compare({"c0": column}, loggers, tasks, {"c0": 0.08}, 1.0).winner
    assert winner.corrected == pytest.approx(winner.value)
    half = 1.96 * np.hypot(0.08, 0.1 / 20)
    assert (winner.low, winner.high) == (
        pytest.approx(winner.value - half, abs=6e-3),
        pytest.approx(winner.value + half, abs=6e-3),
    )


def test_a_policy_under_many_names_is_no_surer_than_under_one() -> None:
    rng = np.random.default_rng(0)
    column, tasks = 0.3 + 0.1 * rng.normal(size=400), np.arange(400)
    for names in (2, 8):
        copies = {f"c{k}": column for k in range(names)}
        result = compare(copies, {}, tasks, dict.fromkeys(copies, 0.08), 1.0)
        assert result.winner.high - result.winner.low == pytest.approx(2 * 1.96 * 0.08, rel=0.05)
        assert all(
            (d.low, d.high) == (pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6)) for d in result.differences
        )


def test_errors_of_a_model_widen_intervals_that_hold_together() -> None:
    """Ten errors that have .1 of their variance in common: the largest of ten is beyond 1.96 in four logs of ten."""
    rng = np.random.default_rng(0)
    columns = rng.normal(size=(400, 10)) * 1e-3
    names = [f"c{k}" for k in range(10)]
    together = comparison(columns, dict.fromkeys(names, 0.1)).simultaneous
    common = np.sqrt(0.1) * rng.normal(size=(200_000, 1))
    largest = np.abs(common + np.sqrt(0.9) * rng.normal(size=(200_000, 10))).max(axis=1)
    half = 0.1 * float(np.quantile(largest, 0.95))
    assert half > 0.27
    for each in together.values():
        assert (each.high or 0) - each.value == pytest.approx(half, rel=0.06)


def test_two_policies_that_never_win_are_not_one() -> None:
    """A model that gives both nothing may be wrong about each: their difference is as unsure as both errors."""
    rng = np.random.default_rng(0)
    columns = {"a": np.zeros(120), "b": rng.random(120), "c": np.zeros(120)}
    (difference,) = [
        d
        for d in compare(columns, {}, np.arange(120), dict.fromkeys(columns, 0.1), 1.0).differences
        if {d.a, d.b} == {"a", "c"}
    ]
    half = 1.96 * 0.1 * np.sqrt(2 * (1 - COMMON))
    assert (difference.low, difference.high) == (pytest.approx(-half, rel=0.01), pytest.approx(half, rel=0.01))


def test_a_value_that_never_varies_widens_no_other_interval() -> None:
    rng = np.random.default_rng(0)
    column = rng.random(120)
    alone = comparison(column[:, None]).simultaneous["c0"]
    for constant in (0.0, 0.1, 0.7):
        beside = comparison(np.stack([column, np.full(120, constant)], axis=1)).simultaneous["c0"]
        assert (beside.low, beside.high) == (pytest.approx(alone.low, abs=1e-9), pytest.approx(alone.high, abs=1e-9))


@pytest.mark.parametrize("unit", [1e-12, 1e90])
def test_the_unit_of_rewards_changes_no_probability(unit: float) -> None:
    rng = np.random.default_rng(11)
    x, y, logged = rng.normal(0.3, 1.0, 80), rng.normal(0.0, 1.0, 80), rng.normal(0.1, 1.0, 80)
    one = compare({"x": x, "y": y}, {"a": logged}, np.arange(80), {"x": 0.1}, 4.0)
    other = compare({"x": unit * x, "y": unit * y}, {"a": unit * logged}, np.arange(80), {"x": unit * 0.1}, unit * 4.0)
    assert [d.p for d in other.differences] == pytest.approx([d.p for d in one.differences])
    assert other.p_best == pytest.approx(one.p_best)
    assert other.winner.corrected == pytest.approx(unit * one.winner.corrected, rel=1e-6)
    for before, after in zip(one.differences, other.differences, strict=True):
        assert (after.low, after.high) == pytest.approx((unit * (before.low or 0), unit * (before.high or 0)))
    for label, each in one.simultaneous.items():
        assert other.simultaneous[label].high == pytest.approx(unit * (each.high or 0), rel=1e-6)


def test_no_probability_is_above_one() -> None:
    """Policies that are surely apart: the shares of the mixture add up to 1 + 2e-16 in one log of eight."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        columns = {"x": rng.normal(1, 0.3, 100), "y": rng.normal(0, 0.3, 100)}
        p = compare(columns, {}, np.arange(100), {}, 1.0, replicates=200).differences[0].p
        assert 0.999 < p <= 1.0
