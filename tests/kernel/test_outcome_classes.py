import numpy as np
import pytest

from worldline.kernel.outcome_classes import MOST_CLASSES, OutcomeClasses, StepOutcome


def going(reward: float) -> StepOutcome:
    return StepOutcome(reward, False, False)


def lost(reward: float) -> StepOutcome:
    return StepOutcome(reward, True, False)


def test_few_outcomes_are_classes_of_their_own() -> None:
    classes = OutcomeClasses([going(0.0)] * 3 + [lost(0.0)])
    assert classes.few
    assert len(classes) == 2
    assert [classes.number(going(0.0)), classes.number(lost(0.0))] == [0, 1]
    assert classes.shares == pytest.approx([0.75, 0.25])


def test_twelve_outcomes_are_few_and_thirteen_are_many() -> None:
    few, more = (OutcomeClasses(going(float(n)) for n in range(number)) for number in (12, 13))
    assert (few.few, len(few)) == (True, 12)
    assert not more.few
    assert len(more) <= MOST_CLASSES


def test_the_order_of_a_log_does_not_matter() -> None:
    outcomes = [going(float(n)) for n in range(13)]
    first, second = OutcomeClasses(outcomes), OutcomeClasses(outcomes[::-1])
    assert [first.number(one) for one in outcomes] == [second.number(one) for one in outcomes]


def many() -> OutcomeClasses:
    """Half of the steps earn nothing, thirty earn 1 to 30, and ten end the episode with a loss of 0 to 9."""
    return OutcomeClasses(
        [going(0.0)] * 40 + [going(float(n)) for n in range(1, 31)] + [lost(float(-n)) for n in range(10)]
    )


def test_of_many_outcomes_the_frequent_one_is_alone_and_no_class_has_two_endings() -> None:
    classes = many()
    assert not classes.few
    assert 8 <= len(classes) <= MOST_CLASSES
    assert classes.shares.sum() == pytest.approx(1)
    assert classes.shares[classes.number(going(0.0))] == pytest.approx(0.5)
    of_going = {classes.number(going(float(n))) for n in range(1, 31)}
    of_lost = {classes.number(lost(float(-n))) for n in range(10)}
    assert not of_going & of_lost
    assert classes.number(going(0.0)) not in of_going | of_lost


def test_of_many_outcomes_classes_are_quantiles_of_the_reward() -> None:
    classes = many()
    numbers = [classes.number(going(float(n))) for n in range(1, 31)]
    assert numbers == sorted(numbers)
    sizes = np.bincount(np.array(numbers) - numbers[0])
    assert sizes.max() - sizes.min() <= 1


def test_every_outcome_rare_and_unlike_still_fits() -> None:
    """Four endings, each outcome once: no more classes than a classifier takes."""
    outcomes = [StepOutcome(float(n), bool(n & 1), bool(n & 2)) for n in range(100)]
    classes = OutcomeClasses(outcomes)
    assert len(classes) <= MOST_CLASSES
    assert {classes.number(one) for one in outcomes} == set(range(len(classes)))


def test_votes_are_summed_by_class_and_what_the_log_has_not_is_not_counted() -> None:
    classes = many()
    summed = classes.summed({going(0.0): 2.0, going(1.0): 0.5, going(99.0): 7.0})
    assert summed[classes.number(going(0.0))] == 2.0
    assert summed[classes.number(going(1.0))] == 0.5
    assert summed.sum() == 2.5


def test_the_chance_of_a_class_goes_to_its_outcomes_by_their_votes_else_as_the_log_has_them() -> None:
    classes = many()
    chances = np.full(len(classes), 1 / len(classes))
    outcomes, spread = classes.spread(chances, {going(1.0): 1.0, going(2.0): 3.0})
    shares = dict(zip(outcomes, spread.tolist(), strict=True))
    assert spread.sum() == pytest.approx(1)
    first = classes.number(going(1.0))
    assert classes.number(going(2.0)) == first, "both are of the lowest quantile"
    assert [shares[going(1.0)], shares[going(2.0)]] == pytest.approx([0.25 / len(classes), 0.75 / len(classes)])
    assert sum(classes.number(one) == first for one in shares) == 2
    top = [one for one in shares if classes.number(one) == classes.number(going(30.0))]
    assert len(top) > 1, "nobody voted for its outcomes: all of them are possible"
    assert [shares[one] for one in top] == pytest.approx([1 / len(classes) / len(top)] * len(top))


def test_means_are_those_of_what_may_happen_in_each_class() -> None:
    classes = many()
    means = classes.means({going(1.0): 1.0, going(2.0): 3.0})
    assert means[classes.number(going(1.0))].tolist() == [1.75, 0.0]
    chances = np.eye(len(classes))
    for at, (reward, ends) in enumerate(means.tolist()):
        outcomes, shares = classes.spread(chances[at], {going(1.0): 1.0, going(2.0): 3.0})
        assert reward == pytest.approx(float(shares @ [one.reward for one in outcomes]))
        assert ends == pytest.approx(float(shares @ [one.ended for one in outcomes]))


def test_what_nobody_votes_for_may_be_but_not_an_end_that_nobody_votes_for() -> None:
    classes = many()
    may_be = classes.possible({going(1.0): 0.5})
    assert may_be[classes.number(going(30.0))]
    assert not may_be[classes.number(lost(0.0))]
    assert classes.possible({going(1.0): 0.5, lost(0.0): 0.5}).all()
    assert OutcomeClasses([lost(0.0), lost(1.0)]).possible({going(0.0): 1.0}).all(), "else nothing may be"


def test_a_class_of_many_outcomes_has_examples_of_the_same_mean() -> None:
    """A thousand rewards, no two alike: what a step costs does not grow with them."""
    rewards = np.random.default_rng(0).normal(size=1000)
    classes = OutcomeClasses(going(round(float(reward), 6)) for reward in rewards)
    outcomes, shares = classes.spread(classes.shares, {})
    assert len(outcomes) <= 32 * MOST_CLASSES
    assert shares.sum() == pytest.approx(1)
    drawn = np.array([one.reward for one in outcomes])
    assert float(shares @ drawn) == pytest.approx(rewards.mean(), abs=0.01)
    assert float(shares @ drawn**2) == pytest.approx(np.mean(rewards**2), abs=0.03)
