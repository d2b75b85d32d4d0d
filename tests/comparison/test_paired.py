"""Differences against scipy's tests, closed forms and simulation."""

import numpy as np
import pytest
from scipy import stats

from worldline.comparison.paired import paired, proportion, task_means, task_rate, tasks_needed, unpaired, wins


def test_paired_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.normal(0, 1, 40), rng.normal(0.3, 1, 40)
    test = stats.ttest_rel(after, before)
    limits = test.confidence_interval(0.9)
    difference = paired(after - before, 0.9)
    assert difference.value == pytest.approx((after - before).mean())
    assert (difference.low, difference.high) == (pytest.approx(limits.low), pytest.approx(limits.high))
    assert difference.p_better == pytest.approx(1 - stats.ttest_rel(after, before, alternative="greater").pvalue)


def test_unpaired_is_welchs_test() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(0, 1, 30), rng.normal(0.2, 3, 50)
    limits = stats.ttest_ind(after, before, equal_var=False).confidence_interval(0.95)
    difference = unpaired(before, after)
    assert (difference.low, difference.high) == (pytest.approx(limits.low), pytest.approx(limits.high))
    assert difference.n == 30


def test_tasks_that_all_differ_alike_leave_room() -> None:
    sure = paired(np.ones(12))
    assert sure.value == 1.0 and sure.high == 1.0
    share = 1 - 0.025 ** (1 / 12)  # of tasks that may go the other way
    assert sure.low == pytest.approx(1 - 2 * share)
    assert sure.p_better == pytest.approx(1 - stats.beta.cdf(0.5, 13, 1))
    none = paired(np.zeros(12))
    assert none.p_better == 0.5 and none.low == pytest.approx(-share) and none.high == pytest.approx(share)
    assert paired(np.array([0.3])).low is None


def test_an_interval_ends_at_the_largest_difference_that_there_can_be() -> None:
    """Of three tasks one is won more: 1/3 + 4.303 / 3, Student's limit, is no difference of two rates."""
    differences = np.array([1.0, 0.0, 0.0])
    assert paired(differences).high == pytest.approx((1 + stats.t.ppf(0.975, 2)) / 3)
    ended = paired(differences, limit=1.0)
    assert (ended.low, ended.high) == (-1.0, 1.0)
    assert ended.p_better == paired(differences).p_better
    apart = unpaired(np.array([0.0, 1.0]), np.array([1.0, 1.0]), limit=1.0)
    assert (apart.value, apart.low, apart.high) == (0.5, -1.0, 1.0)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    """Success of two policies on tasks of different difficulty, paired: 95 % of the intervals hold the difference."""
    rng = np.random.default_rng(2)
    hits = 0
    for _ in range(1000):
        hard = rng.beta(1, 1, 60)
        before, after = rng.random(60) < hard, rng.random(60) < np.minimum(hard + 0.1, 1)
        interval = paired(after.astype(float) - before)
        truth = 0.1 - 0.1**2 / 2  # hard + .1 is cut at 1
        hits += interval.low <= truth <= interval.high
    assert 0.93 <= hits / 1000 <= 0.975


def test_wins_and_task_means_by_hand() -> None:
    assert wins(np.array([0.5, 0.0, 1e-12, -1.0, 1.0])) == (2, 2, 1)
    means = task_means(np.array([1.0, 0.0, 1.0]), np.array([0, 0, 2]), 3)
    assert means[0] == 0.5 and np.isnan(means[1]) and means[2] == 1.0


@pytest.mark.parametrize(("share", "ratio"), [(0.8, 0.25), (0.95, 0.1), (0.9, 1.2)])
def test_the_tasks_needed_give_the_power(share: float, ratio: float) -> None:
    """By the noncentral t distribution, four of five samples of so many tasks tell, and not those of a tenth fewer."""
    differences = np.random.default_rng(3).normal(size=50)
    spread = float(differences.std(ddof=1))

    def power(tasks: int) -> float:
        return float(stats.nct.sf(stats.t.ppf((1 + share) / 2, tasks - 1), tasks - 1, ratio * np.sqrt(tasks)))

    needed = tasks_needed(differences, share, ratio * spread)
    assert power(needed) == pytest.approx(0.8, abs=0.05 if ratio > 1 else 0.01)
    assert power(int(0.9 * needed)) < 0.8


def test_the_tasks_needed_tell_in_four_of_five_logs() -> None:
    """Ten tasks won, six lost, 24 tied: samples of these very differences."""
    differences = np.array([1.0] * 10 + [-1.0] * 6 + [0.0] * 24)
    rng, needed = np.random.default_rng(0), tasks_needed(differences, 0.95, 0.1)
    lows = [paired(rng.choice(differences, needed)).low for _ in range(1000)]
    assert 0.76 < np.mean([low is not None and low > 0 for low in lows]) < 0.84


def test_the_interval_of_a_rate_is_wilsons() -> None:
    for wins_, units in ((0, 12), (12, 12), (3, 40)):
        limits = stats.binomtest(wins_, units).proportion_ci(0.95, "wilson")
        assert proportion(wins_ / units, units) == (pytest.approx(limits.low), pytest.approx(limits.high))


def test_a_rate_over_tasks_is_wilsons_where_each_has_one_episode() -> None:
    """And of tasks that are all alike, each of many episodes, that of all episodes."""
    wins_ = np.array([1.0] * 3 + [0.0] * 9)
    assert task_rate(wins_, np.ones(12)) == proportion(0.25, 12)
    alike = np.full(12, 0.5)
    assert task_rate(alike, np.full(12, 40)) == proportion(0.5, 480)
    assert task_rate(np.ones(1), np.full(1, 40)) == proportion(1.0, 1), "says nothing of other tasks"


def test_a_rate_over_few_tasks_is_as_uncertain_as_students() -> None:
    """Four tasks of many episodes: Wilson's interval around 1/2 is about Student's, of the tasks' rates."""
    rates = np.array([0.4, 0.45, 0.55, 0.6])
    low, high = task_rate(rates, np.full(4, 10_000))
    limits = stats.ttest_1samp(rates, 0.0).confidence_interval(0.95)
    assert (low, high) == (pytest.approx(limits.low, abs=0.01), pytest.approx(limits.high, abs=0.01))


@pytest.mark.parametrize("unit", [1e-10, 1e12])
def test_the_unit_of_returns_changes_nothing(unit: float) -> None:
    before, after = np.random.default_rng(5).normal(size=(2, 30))
    one, other = paired(after - before, most=4.0), paired(unit * (after - before), most=unit * 4.0)
    assert other.p_better == pytest.approx(one.p_better) and other.value == pytest.approx(unit * one.value)
    assert (other.low, other.high) == (pytest.approx(unit * (one.low or 0)), pytest.approx(unit * (one.high or 0)))
    assert wins(unit * (after - before), 4.0 * unit) == wins(after - before, 4.0)
    apart = unpaired(before, after), unpaired(unit * before, unit * after)
    assert apart[1].p_better == pytest.approx(apart[0].p_better)


def test_differences_that_cancel_but_for_rounding_are_none() -> None:
    assert paired(np.array([0.1, 0.2, -0.3])).value == 0.0, "their sum is -5.6e-17"
